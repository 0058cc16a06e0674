package report

import (
	"slices"
	"strings"
)

// dismissed reports whether a suspect was measured again, alone (rdmaperf mesh --confirm), and was not confirmed.
func (p slowPart) dismissed() bool { return p.Confirmed != nil && !*p.Confirmed }

// settled returns the mesh without the suspects that were dismissed, and a sentence about them, if there are any. Slow
// pairs of a slow host are not measured again: they go with it.
func (m *savedMesh) settled() (*savedMesh, string) {
	rest := *m
	rest.SlowHosts = slices.DeleteFunc(slices.Clone(m.SlowHosts), slowPart.dismissed)
	names := map[string]bool{}
	for _, s := range m.SlowHosts {
		if s.dismissed() {
			names[s.name()] = true
		}
	}
	for _, s := range rest.SlowHosts { // another figure of it was confirmed
		delete(names, s.name())
	}
	of := func(list []slowPart, p slowPart) bool {
		return slices.ContainsFunc(list, func(s slowPart) bool {
			nic := func(of string) bool { return s.NIC == "" || s.NIC == of }
			return s.Host == p.From && nic(p.FromNIC) || s.Host == p.To && nic(p.ToNIC)
		})
	}
	pairs := map[[4]string]bool{}
	rest.SlowPairs = slices.DeleteFunc(slices.Clone(m.SlowPairs), func(s slowPart) bool {
		if s.dismissed() {
			pairs[[4]string{s.From, s.FromNIC, s.To, s.ToNIC}] = true
		}
		return s.dismissed() || s.Confirmed == nil && of(m.SlowHosts, s) && !of(rest.SlowHosts, s)
	})
	var parts []string
	if n := len(names); n > 0 {
		parts = append(parts, plural(n, "host", "hosts"))
	}
	if n := len(pairs); n > 0 {
		parts = append(parts, plural(n, "pair", "pairs"))
	}
	if parts == nil {
		return &rest, ""
	}
	return &rest, strings.Join(parts, " and ") + " looked slow, which was not confirmed by another look, alone"
}
