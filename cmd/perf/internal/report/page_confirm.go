package report

import (
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
)

// settled returns the mesh without the suspects that were measured again, alone (rdmaperf mesh --confirm), and were not
// confirmed, and a sentence about them, if there are any. Slow pairs of a slow host are not measured again: they go
// with it.
func settled(m *mesh.Result) (*mesh.Result, string) {
	rest := *m
	names, pairs := map[mesh.HostNIC]bool{}, map[mesh.Direction]bool{}
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
			pairs[s.Direction] = true
		}
		return !m.Stands(&s)
	})
	parts := strings.Join(words(lists.When(len(names) > 0, plural(len(names), "host", "hosts")),
		lists.When(len(pairs) > 0, plural(len(pairs), "pair", "pairs"))), " and ")
	return &rest, lists.When(parts != "", parts+" looked slow, which was not confirmed by another look, alone")
}
