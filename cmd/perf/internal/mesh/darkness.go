package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
)

func newDarkness() *darkness {
	return &darkness{sides: map[end]*side{}, failed: map[end]map[end]bool{}, told: map[end]bool{},
		dark: map[end]string{}, closed: map[end]bool{}}
}

// ask begins to find out who reaches whom now. What is dark stays dark.
func (d *darkness) ask() {
	d.calm()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sides, d.hasty, d.asked = map[end]*side{}, true, map[[2]end]bool{}
}

// calm ends that, and the same doubt does not come again.
func (d *darkness) calm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hasty = false
	for e, with := range d.failed {
		d.told[e] = d.told[e] || len(with) >= enough
	}
	d.failed, d.doubt = map[end]map[end]bool{}, false
}

const (
	enough    = 3  // failures of a NIC before it is looked into, with its time in mind
	mostAsked = 64 // NICs with which each NIC of a side has to have failed
	atOnce    = 8  // of these, at the same time
)

// enough reports whether two sides seem to be apart: not by a few NICs of the larger one that fail.
func (f *failures) enough(a, b *side) bool {
	small, large := min(len(a.nics), len(b.nics)), max(len(a.nics), len(b.nics))
	return f != nil && large > 1 && len(f.apart) >= 2*min(small, enough) &&
		len(f.pairs) >= min(enough*min(small, atOnce), small*large)
}

// add enters a failure.
func (f *failures) add(p [2]end) {
	if f.pairs[p] = true; !f.apart[p[0]] && !f.apart[p[1]] && len(f.apart) < 2*enough {
		f.apart[p[0]], f.apart[p[1]] = true, true
	}
}

// side returns that of a NIC.
func (d *darkness) side(e end) *side {
	if d.sides[e] == nil {
		d.sides[e] = &side{nics: []end{e}, fails: map[*side]*failures{}}
	}
	return d.sides[e]
}

// join makes one side of two.
func (d *darkness) join(a, b *side) {
	if len(a.nics) < len(b.nics) {
		a, b = b, a
	}
	a.nics = append(a.nics, b.nics...)
	for _, e := range b.nics {
		d.sides[e] = a
	}
	for other, f := range b.fails {
		if delete(other.fails, b); other == a {
			continue
		}
		if have := a.fails[other]; have != nil {
			for p := range f.pairs {
				have.add(p)
			}
			if have.met = have.met || f.met; f.met {
				have.why = f.why
			}
			f = have
		}
		a.fails[other], other.fails[a] = f, f
	}
}

// of returns why a NIC is dark, "" if it is not.
func (d *darkness) of(e end) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dark[e]
}

// note takes the outcome of a test; met is set if its ends met.
func (d *darkness) note(a, b end, problem string, met bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, y := d.side(a), d.side(b)
	switch {
	case problem == "":
		delete(d.failed, a)
		delete(d.failed, b)
		if x != y {
			d.join(x, y)
		}
	case x != y:
		f := x.fails[y]
		if f == nil {
			f = &failures{pairs: map[[2]end]bool{}, apart: map[end]bool{}, why: problem}
			x.fails[y], y.fails[x] = f, f
		}
		if met && !f.met {
			f.met, f.why = true, problem
		}
		f.add(ordered(a, b))
		d.doubt = d.doubt || !f.final && f.enough(x, y)
	default:
		for _, p := range [][2]end{{a, b}, {b, a}} {
			if d.failed[p[0]] == nil {
				d.failed[p[0]] = map[end]bool{}
			}
			d.failed[p[0]][p[1]] = true
			d.doubt = d.doubt || len(d.failed[p[0]]) >= enough && !d.told[p[0]]
		}
	}
}

// fails reports whether there are NICs that nobody knows to reach each other.
func (d *darkness) fails() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sides {
		if len(s.fails) > 0 {
			return true
		}
	}
	return false
}

// doubts reports whether it is time to ask.
func (d *darkness) doubts() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.doubt
}

// ordered is a pair of NICs in either direction.
func ordered(a, b end) [2]end {
	if a.compare(b) > 0 {
		a, b = b, a
	}
	return [2]end{a, b}
}

// apart reports whether two NICs are known not to reach each other, and which of them reaches nobody, if one does.
func (d *darkness) apart(a, b end) (alone *end, yes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range []end{a, b} {
		if d.dark[e] != "" {
			return &e, true
		}
	}
	x, y := d.sides[a], d.sides[b]
	if x == nil || y == nil || x.fails[y] == nil || !x.fails[y].final && !(d.hasty && x.fails[y].enough(x, y)) {
		return nil, false
	}
	for i, s := range []*side{x, y} {
		if len(s.nics) == 1 {
			return []*end{&a, &b}[i], true
		}
	}
	return nil, true
}

// all returns the sides, the largest first.
func (d *darkness) all() []*side {
	found := map[*side]bool{}
	for _, s := range d.sides {
		found[s] = true
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b *side) int {
		return cmp.Or(len(b.nics)-len(a.nics), a.nics[0].compare(b.nics[0]))
	})
}

// open returns pairs of NICs that have to be tried before there is a verdict: each side with the largest other one with
// which it has not failed wholly.
func (d *darkness) open(room map[int]int, meets func(a, b end) bool) (list [][2]end) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hasty = false
	sides := d.all()
	for i, s := range sides {
		if d.dark[s.nics[0]] != "" {
			continue
		}
		for _, t := range sides[:i] {
			if d.dark[t.nics[0]] != "" || s.fails[t] == nil && !s.close(t, meets) ||
				len(t.nics) == 1 && len(s.fails) >= mostAsked { // it is not looked for among all that are alone
				continue
			}
			if found := d.untried(s, t, room, meets); found != nil {
				list = append(list, found...)
				break
			}
		}
	}
	return list
}

// close reports whether some NICs of two sides may reach each other, and not only those of other rails.
func (s *side) close(t *side, meets func(a, b end) bool) bool {
	for _, a := range s.nics[:min(len(s.nics), atOnce)] {
		if slices.ContainsFunc(t.nics[:min(len(t.nics), atOnce)], func(b end) bool { return meets(a, b) }) {
			return true
		}
	}
	return false
}

// untried returns pairs of two sides without a test, nil if there are none. room is how many tests each host can still
// have at the same time.
func (d *darkness) untried(s, t *side, room map[int]int, meets func(a, b end) bool) (list [][2]end) {
	f := s.fails[t]
	for i, a := range s.nics {
		tried := 0
		for k := range t.nics {
			b := t.nics[(i*atOnce+k)%len(t.nics)]
			switch p := ordered(a, b); {
			case d.asked[p] || f != nil && f.pairs[p]:
				tried++
			case a.host != b.host && room[a.host] > 0 && room[b.host] > 0 && meets(a, b):
				room[a.host]--
				room[b.host]--
				d.asked[p], list = true, append(list, p)
			}
			if tried == mostAsked || room[a.host] == 0 {
				break
			}
		}
	}
	return list
}

// halves are sides that do not reach each other.
type halves struct {
	sides [][]end
	why   string
}

// conclude returns the NICs that turned out to reach nobody while others do, and the sides of what is split.
// Preconditions: open has no pairs any more.
func (d *darkness) conclude() (dark []end, parts []halves) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[*side]bool{}
	sides := d.all()
	for _, s := range sides {
		if e := s.nics[0]; len(s.nics) > 1 {
			if p := s.part(seen); len(p.sides) > 1 {
				parts = append(parts, p)
			}
		} else if d.dark[e] == "" {
			for _, t := range sides { // the reason is that of the largest, or of one that it met
				if f := s.fails[t]; f != nil && len(t.nics) > 1 && (d.dark[e] == "" || f.met && d.closed[e]) {
					d.dark[e], d.closed[e] = f.why, !f.met
				}
			}
			if d.dark[e] != "" {
				dark = append(dark, e)
			}
		}
	}
	slices.SortFunc(dark, end.compare)
	return dark, parts
}

// part returns what a side that was not seen belongs to, with those that it does not reach.
func (s *side) part(seen map[*side]bool) (p halves) {
	if seen[s] {
		return p
	}
	seen[s] = true
	for list := []*side{s}; len(list) > 0; list = list[1:] {
		s := list[0]
		p.sides = append(p.sides, slices.SortedFunc(slices.Values(s.nics), end.compare))
		for t, f := range s.fails {
			if f.final = true; len(t.nics) < 2 {
				continue
			}
			if p.why == "" || f.why < p.why {
				p.why = f.why
			}
			if !seen[t] {
				seen[t], list = true, append(list, t)
			}
		}
	}
	slices.SortFunc(p.sides, func(a, b []end) int { return cmp.Or(len(b)-len(a), a[0].compare(b[0])) })
	return p
}

// blame makes a NIC dark.
func (m *coordinator) blame(e end, why string) {
	m.dark.mu.Lock()
	m.dark.dark[e] = why
	m.dark.mu.Unlock()
	m.named([]end{e})
}

// named enters NICs that turned out to be dark, and reports them.
func (m *coordinator) named(list []end) {
	for _, e := range list {
		h := m.hosts[e.host]
		d := DarkNIC{Host: h.Name, NIC: lists.When(len(h.nics) > 1, h.nics.name(e.nic)), Error: m.dark.of(e)}
		if m.isClosed(e) {
			m.res.Untested = append(m.res.Untested, d)
			continue
		}
		m.res.DarkNICs = append(m.res.DarkNICs, d)
		if m.Dark != nil {
			m.Dark(d)
		}
	}
}

// isClosed reports whether all that is known of a NIC is that its tests cannot begin.
func (m *coordinator) isClosed(e end) bool {
	m.dark.mu.Lock()
	defer m.dark.mu.Unlock()
	return m.dark.closed[e]
}

// called is how people call a NIC, or the host if it has only one.
func (m *coordinator) called(e end) string {
	h := m.hosts[e.host]
	return endName(h.Name, lists.When(len(h.nics) > 1, h.nics.name(e.nic)))
}

// unreached is the error of a pair that is known not to reach each other, "" if nothing is known.
func (m *coordinator) unreached(from, to int, r rail) string {
	a, b := end{from, r.from}, end{to, r.to}
	switch alone, apart := m.dark.apart(a, b); {
	case alone != nil && m.isClosed(*alone):
		return m.called(*alone) + " cannot be tested: " + m.dark.of(*alone)
	case alone != nil:
		return m.called(*alone) + " reaches nobody"
	case apart:
		return fmt.Sprintf("%s and %s are on different sides of a split fabric", m.called(a), m.called(b))
	}
	return ""
}

// mostReaches is how many passes of a mesh find out who reaches whom.
const mostReaches = 10

// uncertain reports whether NICs that worked fail, so that reachAgain is due.
func (m *coordinator) uncertain() bool {
	return m.ctx.Err() == nil && m.reaches < mostReaches && m.dark.doubts()
}
