package mesh

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
)

// Names returns the nodes of a list.
func Names(list []Listed) []string { return lists.Map(list, func(l Listed) string { return l.Host }) }

// Sort fills the lists, and returns the names of the nodes on which jobs may run, and of those that are bad.
func (r *Result) Sort() (good, bad []string) {
	wrong, unsure := map[string]bool{}, map[string]bool{}
	r.Lists = Lists{Good: []string{}, Bad: []Listed{}, Unknown: []Listed{}}
	named := func(node string) bool {
		return node != unnamed && !strings.Contains(node, " ") // as in: rank 5
	}
	enters := func(list *[]Listed, seen map[string]bool) func(host, why string) {
		return func(host, why string) {
			node := roster.Node(host)
			if !wrong[node] && !seen[node] && named(node) {
				*list = append(*list, Listed{node, why})
			}
			seen[node] = true
		}
	}
	mark, doubt := enters(&r.Bad, wrong), enters(&r.Unknown, unsure)
	for _, l := range r.LostHosts {
		if !l.stray && l.Kind != Unasked {
			mark(l.Host, l.Kind+": "+l.Error)
		}
	}
	for i := range r.SlowHosts {
		if s := &r.SlowHosts[i]; s.Holds() {
			mark(s.Host, s.why())
		}
	}
	for _, d := range r.DarkNICs {
		mark(d.Host, strings.TrimSpace(d.NIC+" reaches nobody: "+d.Error))
	}
	for _, s := range r.StalledHosts {
		mark(s.Host, fmt.Sprintf("it stood still for %.1f s", s.Seconds))
	}
	unclear := r.unclearHosts()
	for _, h := range slices.Sorted(maps.Keys(unclear)) {
		doubt(h, unclear[h])
	}
	for p := range lists.Each(r.Pairs) {
		if p.Error == "" || p.Skipped || p.aside {
			continue
		}
		from, to := p.Ends()
		if !wrong[roster.Node(p.To)] {
			doubt(p.From, fmt.Sprintf("its pair with %s fails: %s", to, p.Error))
		}
		if !wrong[roster.Node(p.From)] {
			doubt(p.To, fmt.Sprintf("its pair with %s fails: %s", from, p.Error))
		}
	}
	for i := range r.SlowHosts {
		if s := &r.SlowHosts[i]; !s.Holds() {
			doubt(s.Host, s.why()+", which is not confirmed")
		}
	}
	r.unmeasured(doubt)
	there := map[string]bool{}
	for _, h := range r.Hosts {
		if node := roster.Node(h); !wrong[node] && !unsure[node] && !there[node] {
			r.Good = append(r.Good, node)
			there[node] = true
		}
	}
	return r.Good, Names(r.Bad)
}

// why describes a verdict.
func (s *SlowHost) why() string {
	f := figureOf(s.Figure)
	return fmt.Sprintf("%s: %s %.4g %s, the median of its group is %.4g",
		strings.TrimSpace(s.NIC+" "+s.Part+" slowly"), strings.ToLower(f.Title), s.Value/f.Per, f.Unit, s.Median/f.Per)
}

// unmeasured doubts the hosts with a NIC that has no figures, where it sends or where it receives, or few because the
// mesh was interrupted.
func (r *Result) unmeasured(doubt func(host, why string)) {
	count := map[end]*[2]int{}
	for host, n := range r.nics {
		for i := range n {
			count[end{host, i}] = &[2]int{}
		}
	}
	for p := range lists.Each(r.Pairs) {
		for k := range parts {
			e := p.end(k)
			if count[e] == nil {
				count[e] = &[2]int{}
			}
			if p.Error == "" && p.Bits > 0 && p.P50 > 0 {
				count[e][k]++
			}
		}
	}
	for _, n := range r.UnmetNICs {
		doubt(n.Host, strings.TrimSpace(n.NIC+" was not measured: no host that it met has such a NIC"))
	}
	met := map[int]bool{}
	for _, e := range slices.SortedFunc(maps.Keys(count), end.compare) {
		met[e.host] = true
		what := "it was not measured"
		if e.host < len(r.HostNICs) && len(r.HostNICs[e.host]) > 1 {
			what = r.HostNICs[e.host][e.nic] + " was not measured"
		}
		switch n := min(count[e][0], count[e][1]); {
		case n == 0 && count[e][0]+count[e][1] > 0:
			doubt(r.Hosts[e.host], what+" in both directions")
		case n == 0:
			doubt(r.Hosts[e.host], what)
		case 2*n < r.planned:
			doubt(r.Hosts[e.host], fmt.Sprintf("the mesh was interrupted after %d of %d rounds", n, r.planned))
		}
	}
	for i, h := range r.Hosts {
		if !met[i] {
			doubt(h, "it was not measured")
		}
	}
}
