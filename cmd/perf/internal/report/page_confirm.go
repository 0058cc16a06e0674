package report

import (
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
)

// settled returns the mesh without the suspects that were measured again, alone (rdmaperf mesh --confirm), and were not
// confirmed, and a sentence about them, if there are any. Slow pairs of a slow host are not measured again: they go
// with it.
func settled(m *mesh.Result) (*mesh.Result, string) {
	rest := *m
	names, pairs := map[mesh.HostNIC]bool{}, map[[4]string]bool{}
	rest.SlowHosts = slices.DeleteFunc(slices.Clone(m.SlowHosts), func(s mesh.SlowHost) bool {
		if !s.Holds() {
			names[mesh.HostNIC{Host: s.Host, NIC: s.NIC}] = true
		}
		return !s.Holds()
	})
	for _, s := range rest.SlowHosts { // another figure of it was confirmed
		delete(names, mesh.HostNIC{Host: s.Host, NIC: s.NIC})
	}
	rest.SlowPairs = slices.DeleteFunc(slices.Clone(m.SlowPairs), func(s mesh.SlowPair) bool {
		if !s.Holds() {
			pairs[[4]string{s.From, s.FromNIC, s.To, s.ToNIC}] = true
		}
		return !m.Stands(&s)
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
