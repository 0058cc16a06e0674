package report

import (
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// nicSet has NICs of hosts; one without a name stands for all of its host.
type nicSet map[[2]string]bool

const anyNIC = "\x00"

func (s nicSet) add(host, nic string) {
	s[[2]string{host, nic}], s[[2]string{host, anyNIC}] = true, true
}

// has reports whether one end of a pair is in the set. Pairs of NICs without names may be of any.
func (s nicSet) has(p *mesh.PairResult) bool {
	in := func(host, nic string) bool {
		return s[[2]string{host, nic}] || s[[2]string{host, ""}] || nic == "" && s[[2]string{host, anyNIC}]
	}
	return in(p.From, p.FromNIC) || in(p.To, p.ToNIC)
}

// cards reads what the mesh says about NICs.
func (v *view) cards() {
	v.rails, v.dark, v.slow, v.mute = 1, nicSet{}, nicSet{}, nicSet{}
	for _, list := range v.m.HostNICs {
		v.rails = max(v.rails, len(list))
	}
	for _, h := range v.m.SlowHosts {
		v.slow.add(h.Host, h.NIC)
	}
	for _, n := range v.m.Untested {
		v.mute.add(n.Host, n.NIC)
	}
	for _, s := range v.m.Splits {
		side := map[[2]string]int{}
		for i, list := range s.Sides {
			for _, n := range list {
				side[[2]string{n.Host, n.NIC}] = i + 1
			}
		}
		v.apart = append(v.apart, side)
	}
	for _, d := range v.m.DarkNICs {
		v.dark.add(d.Host, d.NIC)
		if i, ok := v.at[d.Host]; ok {
			v.marks[i] = "dark"
		}
	}
}

// parted reports whether the ends of a pair are on different sides of a split fabric.
func (v *view) parted(p *mesh.PairResult) bool {
	for _, side := range v.apart {
		at := func(host, nic string) int { return max(side[[2]string{host, nic}], side[[2]string{host, ""}]) }
		if a, b := at(p.From, p.FromNIC), at(p.To, p.ToNIC); a != b && a > 0 && b > 0 {
			return true
		}
	}
	return false
}

// splits has a verdict for each split of the fabric.
func (v *view) splits() {
	some(v, "split", v.m.Splits, mostVerdicts/4, "more, in the JSON file", func(s mesh.Split) (host, why string) {
		v.parts = append(v.parts, "the fabric split in "+plural(len(s.Sides), "side", "sides"))
		return "", cut(s.String(), longestError)
	})
}

// unknownHost is the verdict on a host that may be good or bad.
const unknownHost = "unknown"

// unknown has a verdict for each reason why nobody knows whether hosts are good, and the hosts that have it.
func (v *view) unknown() {
	reasons := lists.Groups(v.m.Unknown, func(u mesh.Listed) string { return u.Why })
	some(v, unknownHost, reasons, mostVerdicts, "more reasons, in the JSON file", func(l []mesh.Listed) (_, _ string) {
		hosts := printable.Message(roster.Fold(mesh.Names(l)))
		return cut(hosts, longestError), cut(printable.Message(l[0].Why), longestError)
	})
}

// side is an end of a pair in words.
func (v *view) side(host, nic string) string {
	return end(host, lists.When(v.rails > 1, nic))
}

// called is a pair in words.
func (v *view) called(p *mesh.PairResult) string {
	return v.side(p.From, p.FromNIC) + " to " + v.side(p.To, p.ToNIC)
}

func end(host, nic string) string {
	return name(host) + lists.When(nic != "", " "+name(nic))
}

// explained reports whether a pair is slow or without a figure as one of its hosts or NICs is.
func (v *view) explained(p *mesh.PairResult) bool {
	return v.lost(p.From) || v.lost(p.To) || v.dark.has(p) || v.slow.has(p)
}

// darkNICs has a verdict for each NIC that reaches nobody, and each that was in no test.
func (v *view) darkNICs() {
	without := map[[2]string]int{}
	for p := range lists.Each(v.m.Pairs) {
		if p.Error == "" {
			continue
		}
		for _, e := range [][2]string{{p.From, p.FromNIC}, {p.To, p.ToNIC}} {
			if !v.dark[e] {
				e[1] = ""
			}
			without[e]++
		}
	}
	v.part(len(v.m.DarkNICs), "NIC dark", "NICs dark")
	some(v, "dark", v.m.DarkNICs, mostVerdicts, "more, in the JSON file", func(d mesh.DarkNIC) (host, why string) {
		n := without[[2]string{d.Host, d.NIC}]
		return end(d.Host, d.NIC), "reaches nobody: " + cut(printable.Message(d.Error), longestError) +
			lists.When(n > 0, ". "+plural(n, "pair", "pairs")+" of it without a figure")
	})
	some(v, "unmet", v.m.UnmetNICs, mostVerdicts/4, "more NICs were not measured", func(n mesh.HostNIC) (_, _ string) {
		return end(n.Host, n.NIC), "was not measured: no host that it met has such a NIC"
	})
}
