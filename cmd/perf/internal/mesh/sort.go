package mesh

import (
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
)

// Sort returns the names of the nodes on which jobs may run, and of those that have a host which is slow, stood still,
// has a dark NIC, is lost, or did not come. Nodes whose names nobody knows are in neither.
func (r *Result) Sort() (good, bad []string) {
	wrong := map[string]bool{}
	mark := func(host string) {
		node := roster.Node(host)
		named := node != unnamed && !strings.Contains(node, " ") // as in: rank 5
		if !wrong[node] && named {
			bad = append(bad, node)
		}
		wrong[node] = true
	}
	for _, l := range r.LostHosts {
		if !l.stray && l.Kind != Unasked {
			mark(l.Host)
		}
	}
	for i := range r.SlowHosts {
		if s := &r.SlowHosts[i]; s.Holds() {
			mark(s.Host)
		}
	}
	for _, d := range r.DarkNICs {
		mark(d.Host)
	}
	for _, s := range r.StalledHosts {
		mark(s.Host)
	}
	there, unclear := map[string]bool{}, r.unclearHosts()
	for _, h := range r.Hosts {
		if node := roster.Node(h); !wrong[node] && !there[node] && unclear[h] == "" {
			good = append(good, node)
			there[node] = true
		}
	}
	return good, bad
}
