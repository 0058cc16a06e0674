package mesh

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// rails returns what is measured between two hosts, at least one rail.
func (m *coordinator) rails(from, to int) (list []rail) {
	a, b := m.hosts[from].nics, m.hosts[to].nics
	if len(a) == 0 || len(b) == 0 {
		return []rail{{-1, -1}}
	}
	if m.Rails == AllRails {
		for i := range a {
			for k := range b {
				if a[i].meets(b[k]) {
					list = append(list, rail{i, k})
				}
			}
		}
		if list == nil {
			list = []rail{{0, 0}} // its error has the reason
		}
		return list
	}
	for i := range a {
		if k := b.index(a[i].Name); k >= 0 {
			list = append(list, rail{i, k})
		}
	}
	if list == nil {
		for i := range min(len(a), len(b)) {
			list = append(list, rail{i, i})
		}
	}
	return list
}

// equip gives the hosts that are there their NICs. A port without a carrier that no host uses is none; one that others
// use is dark.
func (m *coordinator) equip() {
	works := map[string]bool{}
	for _, at := range m.present {
		for _, n := range m.hosts[at].agent.NICs {
			if n.Problem == "" {
				works[n.Name] = true
			}
		}
	}
	named := false
	m.res.HostNICs, m.res.nics = make([][]string, len(m.hosts)), make([]int, len(m.hosts))
	m.res.rates = map[end]float64{}
	for i, h := range m.hosts {
		m.res.HostNICs[i] = []string{}
		if h.agent == nil {
			continue
		}
		for _, n := range h.agent.NICs {
			if n.Problem != "" && n.Spare && !works[n.Name] {
				continue
			}
			m.res.rates[end{i, len(h.nics)}] = n.Rate
			h.nics = append(h.nics, nic(n))
			m.res.HostNICs[i] = append(m.res.HostNICs[i], n.Name)
			named = named || n.Name != ""
		}
		m.res.nics[i] = len(h.nics)
		m.res.many = m.res.many || len(h.nics) > 1
	}
	if !named {
		m.res.HostNICs = nil
	}
	for _, at := range m.present {
		for i, n := range m.hosts[at].nics {
			if n.Problem != "" {
				m.blame(end{at, i}, n.Problem)
			}
		}
	}
}

// apart returns why two NICs can never reach each other, or "".
func (m *coordinator) apart(from, to int, r rail) string {
	if r.from < 0 {
		return ""
	}
	a, b := m.hosts[from], m.hosts[to]
	if x, y := a.nics[r.from], b.nics[r.to]; !x.meets(y) {
		return fmt.Sprintf("%s is %s, %s is %s: the two never meet", endName(a.Name, x.Name), x.Link,
			endName(b.Name, y.Name), y.Link)
	}
	return ""
}

// unpaired enters the NICs that were not measured with hosts that have others left: their names differ, or are equal
// for NICs that do not belong together, as those of virtual functions may be.
func (m *coordinator) unpaired() {
	met := map[[2]int]map[end]bool{} // by two hosts
	for p := range lists.Each(m.res.Pairs) {
		hosts := [2]int{min(p.from, p.to), max(p.from, p.to)}
		if met[hosts] == nil {
			met[hosts] = map[end]bool{}
		}
		met[hosts][p.end(0)], met[hosts][p.end(1)] = true, true
	}
	with := map[end]int{}
	for hosts, ends := range met {
		var left [2][]end
		for side, at := range hosts {
			for i := range m.hosts[at].nics {
				if e := (end{at, i}); !ends[e] {
					left[side] = append(left[side], e)
				}
			}
		}
		if len(left[0]) > 0 && len(left[1]) > 0 {
			for _, e := range slices.Concat(left[0], left[1]) {
				with[e]++
			}
		}
	}
	for _, e := range slices.SortedFunc(maps.Keys(with), end.compare) {
		h := m.hosts[e.host]
		nic := HostNIC{Host: h.Name, NIC: h.nics[e.nic].Name}
		m.res.UnpairedNICs = append(m.res.UnpairedNICs, UnpairedNIC{nic, with[e]})
	}
}

// String describes it for people.
func (u UnpairedNIC) String() string {
	return fmt.Sprintf("%s was not measured with %d hosts, which have NICs left of other names: give --rails all, or "+
		"name those that belong together (-d)", named(u.Host, u.NIC), u.Hosts)
}

// measured writes which NIC of each host was measured, where each has one.
func (r *Result) measured(w io.Writer) {
	hosts := map[string][]string{}
	for i, list := range r.HostNICs {
		if len(list) > 0 {
			hosts[list[0]] = append(hosts[list[0]], r.Hosts[i])
		}
	}
	if r.many || len(hosts) == 0 {
		return
	}
	names := slices.SortedFunc(maps.Keys(hosts), roster.Compare)
	if len(names) == 1 {
		fmt.Fprintf(w, "NIC of each host: %s\n\n", printable.Name(names[0]))
		return
	}
	for _, n := range names {
		list := printable.Message(roster.Fold(hosts[n]))
		fmt.Fprintf(w, "NIC of %s: %s\n", list, cmp.Or(printable.Name(n), "not known"))
	}
	fmt.Fprintln(w)
}

// unmet enters the NICs that no other host has, of those that a host met.
func (m *coordinator) unmet() {
	met, hosts := map[end]bool{}, map[int]bool{}
	for p := range lists.Each(m.res.Pairs) {
		met[p.end(0)], met[p.end(1)] = true, true
		hosts[p.from], hosts[p.to] = true, true
	}
	for _, at := range m.present {
		for i, n := range m.hosts[at].nics {
			if e := (end{at, i}); hosts[at] && !met[e] && m.dark.of(e) == "" {
				m.res.UnmetNICs = append(m.res.UnmetNICs, HostNIC{Host: m.hosts[at].Name, NIC: n.Name})
			}
		}
	}
}
