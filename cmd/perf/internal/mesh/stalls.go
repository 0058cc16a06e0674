package mesh

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Still counts the hosts and pairs that stood still.
func (s *Stalls) Still() (hosts, pairs int) { return len(s.StalledHosts), len(s.StalledPairs) }

// stalled writes a line for each host and pair that stood still.
func (r *Result) stalled(w io.Writer) {
	s := &r.Stalls
	for _, h := range s.StalledHosts {
		fmt.Fprintf(w, "stalled host %s: ", printable.Name(h.Host))
		switch {
		case h.Silences == 0:
			fmt.Fprintf(w, "messages of %d of its pairs took up to %.1f s\n", h.Pairs, h.Seconds)
		case h.Silences == 1:
			fmt.Fprintf(w, "it stood still for %.1f s, %.1f s after the mesh began\n", h.Seconds, h.At)
		default:
			fmt.Fprintf(w, "it stood still %d times, for up to %.1f s, %.1f s after the mesh began\n", h.Silences,
				h.Seconds, h.At)
		}
	}
	listed(w, s.StalledPairs, worstPairs, "stalled pairs", func(p StalledPair) string {
		return fmt.Sprintf("stalled pair %s: a message took %.1f s", r.called(&p.Direction), p.Seconds)
	})
	if s.Itself > 0 {
		fmt.Fprintf(w, "rdmaperf mesh itself stood still for %.1f s, which is nobody's fault but its host's\n",
			s.Itself)
	}
}

const (
	watchTick = 100 * time.Millisecond
	mostGaps  = 1024
)

// look notes that time goes on.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if g := (agent.Silence{From: w.last, To: now}); !w.last.IsZero() && g.Time() > 5*watchTick {
		if len(w.gaps) == mostGaps {
			w.gaps = w.gaps[1:]
		}
		w.gaps = append(w.gaps, g)
	}
	w.last = now
}

// during returns how much of a time this process itself stood still.
func (w *watch) during(s agent.Silence) (d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.gaps {
		d += max(0, min(g.Time(), s.Time(), g.To.Sub(s.From), s.To.Sub(g.From)))
	}
	return d
}

// before returns how long this process stood still before an instant, if that was long, and ended then or just before.
func (w *watch) before(at time.Time, long time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.gaps {
		if g.Time() > long && at.After(g.From) && at.Before(g.To.Add(2*settles)) {
			return g.Time()
		}
	}
	return 0
}

// hears returns how long a silence is that matters. One that is not long enough for a verdict speaks for others at the
// same time.
func (m *coordinator) hears() time.Duration {
	if m.Stall == 0 {
		return 0
	}
	return agent.Pace(m.Beat) + m.Stall/2
}

// stalls names the hosts and pairs that stood still for longer than bound.
func (m *coordinator) stalls() {
	if m.Stall == 0 {
		return
	}
	m.own.look()
	heard := map[string][]agent.Silence{}
	for _, h := range m.hosts {
		if h.agent != nil && h.ctx.Err() == nil {
			heard[h.Name] = h.agent.Silences()
		}
	}
	r := m.res
	hosts := silent(heard, agent.Pace(m.Beat)+m.Stall, m.own.during)
	for name, list := range hosts {
		h := StalledHost{Host: name, Silences: len(list)}
		for _, s := range list {
			if d := (s.Time() - m.own.during(s)).Seconds(); d > h.Seconds {
				h.Seconds, h.At = d, s.From.Sub(r.Started).Seconds()
			}
		}
		r.StalledHosts = append(r.StalledHosts, h)
	}
	r.stalledPairs(m.Stall)
	slices.SortFunc(r.StalledHosts, func(a, b StalledHost) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Host, b.Host))
	})
	own := agent.Silence{From: r.Started, To: time.Now()}
	if d := m.own.during(own); d > m.Stall {
		r.Itself = d.Seconds()
	}
}

// silent returns the silences of hosts that are longer than bound, without what is not the host's: own is how much of a
// time this process did not look, and most hosts are not silent at the same time by chance.
func silent(heard map[string][]agent.Silence, bound time.Duration, own func(agent.Silence) time.Duration,
) map[string][]agent.Silence {
	var begins, ends []time.Time
	for _, list := range heard {
		for _, s := range list {
			begins, ends = append(begins, s.From), append(ends, s.To)
		}
	}
	slices.SortFunc(begins, time.Time.Compare)
	slices.SortFunc(ends, time.Time.Compare)
	// together returns how many hosts are silent in the middle of a silence.
	together := func(s agent.Silence) int {
		at := s.From.Add(s.Time() / 2)
		began, _ := slices.BinarySearchFunc(begins, at, func(t, at time.Time) int {
			return cmp.Or(t.Compare(at), -1)
		})
		ended, _ := slices.BinarySearchFunc(ends, at, time.Time.Compare)
		return began - ended
	}
	found := map[string][]agent.Silence{}
	for name, list := range heard {
		for _, s := range list {
			if s.Time()-own(s) > bound && 2*together(s) <= max(len(heard), 2) {
				found[name] = append(found[name], s)
			}
		}
	}
	return found
}

// fewStalled is how many stalled pairs a host has at least to be named for them.
const fewStalled = 3

// stalledPairs names the pairs in which a message took longer than bound, and the hosts that have them in common.
func (r *Result) stalledPairs(bound time.Duration) {
	all, of := map[string]int{}, map[string]int{}
	worst := map[string]*PairResult{}
	for p := range lists.Each(r.Pairs) {
		if p.Max <= 0 || p.starved() {
			continue
		}
		all[p.From]++
		all[p.To]++
		if p.Max <= float64(bound) {
			continue
		}
		r.StalledPairs = append(r.StalledPairs, StalledPair{p.Direction, p.Max / 1e9})
		for _, h := range []string{p.From, p.To} {
			if of[h]++; worst[h] == nil || p.Max > worst[h].Max {
				worst[h] = p
			}
		}
	}
	slices.SortStableFunc(r.StalledPairs, func(a, b StalledPair) int { return cmp.Compare(b.Seconds, a.Seconds) })
	for _, name := range inCommon(all, of, len(r.StalledPairs)) {
		i := slices.IndexFunc(r.StalledHosts, func(h StalledHost) bool { return h.Host == name })
		if i < 0 {
			i = len(r.StalledHosts)
			p := worst[name]
			r.StalledHosts = append(r.StalledHosts, StalledHost{Host: name, Seconds: p.Max / 1e9,
				At: p.at.Sub(r.Started).Seconds()})
		}
		r.StalledHosts[i].Pairs = of[name]
	}
}

// inCommon returns the hosts that explain stalled pairs: those most of whose pairs are stalled, while most hosts have
// few; or else the one that is in most of them. all has the pairs of each host, of the stalled ones.
func inCommon(all, of map[string]int, stalled int) (names []string) {
	var shares []float64
	for h, n := range all {
		shares = append(shares, float64(of[h])/float64(n))
	}
	best, most, next := "", 0, 0
	for h, n := range of {
		if 2*n > all[h] && n >= fewStalled && Median(shares) <= 0.5 {
			names = append(names, h)
		}
		if n > most {
			best, most, next = h, n, most
		} else {
			next = max(next, n)
		}
	}
	if names == nil && most >= fewStalled && most > next && 2*most > stalled {
		names = []string{best}
	}
	slices.Sort(names)
	return names
}
