package mesh

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
)

// reachMessages is how many small messages show that two NICs reach each other: the fewest that a test has.
const reachMessages = 5

// reach sends a few small messages between each two NICs that are to be measured, which shows both directions. NICs
// that are dark are named, and not measured.
func (m *coordinator) reach() {
	order, rounds := schedule.Rounds, m.Rounds
	if !m.Order.Whole() {
		order, rounds = m.Order, 0
	}
	back := m.Order.Whole() || m.Order == schedule.Bisection // each pair has both directions
	p := m.Latency
	p.Duration, p.Iters, p.Silence = 0, reachMessages, m.Reach
	began := time.Now()
	n := len(m.present)
	m.begin("reach", schedule.New(order, n, rounds), order.Together(n) == 1, func(from, to int) []PairResult {
		if back && from > to {
			return nil
		}
		return m.each(from, to, func(ctx context.Context, from, to *member, r *PairResult) error {
			ctx, cancel := context.WithTimeoutCause(ctx, m.Reach, fmt.Errorf("no message arrives within %v", m.Reach))
			defer cancel()
			_, err := m.test(ctx, from, to, r, p)
			return err
		})
	}, func(PairResult) {})
	m.res.Reach = time.Since(began).Seconds()
}

// DarkNIC is a NIC that reaches nobody, or no host any more.
type DarkNIC struct {
	Host  string `json:"host"`
	NIC   string `json:"nic,omitempty"` // empty: the host's only one
	Error string `json:"error"`
}

// HostNIC is a NIC of a host.
type HostNIC struct {
	Host string `json:"host"`
	NIC  string `json:"nic,omitempty"`
}

// darkness tells NICs that reach nobody from those that meet one.
type darkness struct {
	mu     sync.Mutex
	works  map[end]bool           // a test of it went well
	failed map[end]map[end]string // those with which it failed since then, and the error
	dark   map[end]string         // why
}

func newDarkness() *darkness {
	return &darkness{works: map[end]bool{}, failed: map[end]map[end]string{}, dark: map[end]string{}}
}

// enough is with how many NICs that are well another one has to fail to be dark.
const enough = 3

// of returns why a NIC is dark, "" if it is not.
func (d *darkness) of(e end) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dark[e]
}

// note takes the outcome of a test, and returns NICs that are dark by it.
func (d *darkness) note(a, b end, problem string) (found []end) {
	d.mu.Lock()
	defer d.mu.Unlock()
	look := []end{a, b}
	for i, e := range look {
		other := look[1-i]
		if problem == "" {
			d.works[e] = true
			delete(d.failed, e)
		} else if d.failed[e] == nil {
			d.failed[e] = map[end]string{other: problem}
		} else {
			d.failed[e][other] = problem
		}
	}
	if problem == "" {
		return nil
	}
	for _, e := range look {
		if n, why := d.well(e); n >= enough && d.dark[e] == "" {
			d.dark[e] = why
			found = append(found, e)
		}
	}
	return found
}

// well returns with how many NICs that are well one has failed since it worked, and with which error.
func (d *darkness) well(e end) (n int, why string) {
	for _, o := range slices.SortedFunc(maps.Keys(d.failed[e]), end.compare) {
		if !d.works[o] || d.dark[o] != "" {
			continue
		}
		if _, it := d.failed[o][e]; len(d.failed[o]) > 1 || len(d.failed[o]) == 1 && !it {
			continue // it also fails with others
		}
		if n++; n == 1 {
			why = d.failed[e][o]
		}
	}
	return n, why
}

// conclude returns NICs that failed with all others that they met, if one of those works.
func (d *darkness) conclude() (found []end) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for e := range d.failed {
		if d.works[e] || d.dark[e] != "" {
			continue
		}
		others := slices.SortedFunc(maps.Keys(d.failed[e]), end.compare)
		if i := slices.IndexFunc(others, func(o end) bool { return d.works[o] }); i >= 0 {
			d.dark[e] = d.failed[e][others[i]]
			found = append(found, e)
		}
	}
	slices.SortFunc(found, end.compare)
	return found
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
		d := DarkNIC{Host: h.Name, Error: m.dark.of(e)}
		if len(h.nics) > 1 {
			d.NIC = h.nics.name(e.nic)
		}
		m.res.DarkNICs = append(m.res.DarkNICs, d)
		if m.Dark != nil {
			m.Dark(d)
		}
	}
}

// unreached is the error of a pair with a dark NIC, "" if it has none.
func (m *coordinator) unreached(from, to int, r rail) string {
	for _, e := range []end{{from, r.from}, {to, r.to}} {
		if h := m.hosts[e.host]; m.dark.of(e) != "" {
			name := h.Name
			if len(h.nics) > 1 {
				name = endName(name, h.nics.name(e.nic))
			}
			return name + " reaches nobody"
		}
	}
	return ""
}
