package schedule

import "slices"

// Schedule hands out pairs. A host that is lost gets no more.
//
// In a tournament a host goes to one of its next pairs as soon as both are free: no host waits for the slowest pair of
// a round. All other orders take one step after the other.
type Schedule struct {
	of      func(step int) []Pair
	next    int  // step
	end     int  // of the steps
	free    bool // hosts go on by themselves
	queues  []queue
	look    []int // hosts of a tournament that may have something to do
	running int
	left    int // pairs that have not begun
}

// queue has the pairs that a host still has to be in, in turn.
type queue struct {
	lost, busy bool
	pairs      []Pair
}

// New returns the schedule of an order for n hosts. With rounds above 0, each host is in so many disjoint pairs only.
func New(o Order, n, rounds int) *Schedule {
	count, of := o.steps(n)
	if o == Rounds && rounds > 0 && 2*rounds < count {
		some := sample(n, rounds)
		count, of = 2*rounds, func(step int) []Pair { return played(n, step, some[step/2]) }
	}
	return newSchedule(n, 0, count, of, o == Rounds)
}

// newSchedule returns a schedule of steps, of a tournament if hosts are free.
func newSchedule(n, from, to int, of func(step int) []Pair, free bool) *Schedule {
	s := &Schedule{of: of, next: from, end: to, free: free, queues: make([]queue, n)}
	for step := from; step < to; step++ {
		s.left += len(of(step))
	}
	for i := range n {
		s.again(n - 1 - i)
	}
	return s
}

// List returns a schedule of given pairs, one at a time.
func List(n int, pairs []Pair) *Schedule {
	return newSchedule(n, 0, len(pairs), func(step int) []Pair { return pairs[step : step+1] }, false)
}

// Together returns a schedule of given pairs, all at the same time.
func Together(n int, pairs []Pair) *Schedule {
	return newSchedule(n, 0, 1, func(int) []Pair { return pairs }, false)
}

// Left returns how many pairs have not begun.
func (s *Schedule) Left() int { return s.left }

// Next returns the pairs that begin now, and those that are left out because a host is lost. With none of both, and
// none running, all is over.
func (s *Schedule) Next() (begin, skip []Pair) {
	defer func() { s.left -= len(begin) + len(skip) }()
	if s.free {
		return s.advance()
	}
	for s.running == 0 && len(begin) == 0 && s.next < s.end {
		for _, p := range s.of(s.next) {
			if s.queues[p.From].lost || s.queues[p.To].lost {
				skip = append(skip, p)
				continue
			}
			begin = append(begin, p)
		}
		s.next++
		s.running += len(begin)
	}
	return begin, skip
}

// Done ends a pair.
func (s *Schedule) Done(p Pair) {
	s.running--
	s.queues[p.From].busy, s.queues[p.To].busy = false, false
	s.again(p.To, p.From)
}

// Lose takes a host out.
func (s *Schedule) Lose(host int) {
	s.queues[host].lost = true
	s.again(host)
}

// again has a tournament look at hosts.
func (s *Schedule) again(hosts ...int) {
	if s.free {
		s.look = append(s.look, hosts...)
	}
}

// ahead is how many of its next pairs a free host looks at. With all of them, the tournament would end in disorder,
// with pairs that cannot run at the same time; with one, a host that stands still holds up those that wait for it, and
// those that wait for them.
const ahead = 8

// advance is Next of a tournament: a free host begins the first of its next pairs whose other host is free. Steps are
// filled in as hosts run out of pairs, so that a large mesh is never there as a whole.
func (s *Schedule) advance() (begin, skip []Pair) {
	for len(s.look) > 0 || s.running == 0 && s.fill() {
		if len(s.look) == 0 {
			continue
		}
		q := &s.queues[s.look[len(s.look)-1]]
		s.look = s.look[:len(s.look)-1]
		if q.busy {
			continue
		}
		for !q.lost && len(q.pairs) < ahead && s.fill() {
		}
		lost := func(p Pair) bool { return s.queues[p.From].lost || s.queues[p.To].lost }
		if k := slices.IndexFunc(q.pairs, lost); k >= 0 {
			p := q.pairs[k]
			skip = append(skip, p)
			remove(&s.queues[p.From], p)
			remove(&s.queues[p.To], p)
			s.look = append(s.look, p.From, p.To)
			continue
		}
		for _, p := range q.pairs[:min(ahead, len(q.pairs))] {
			from, to := &s.queues[p.From], &s.queues[p.To]
			if !from.busy && !to.busy {
				from.busy, to.busy = true, true
				remove(from, p)
				remove(to, p)
				begin = append(begin, p)
				s.running++
				break
			}
		}
	}
	return begin, skip
}

// fill gives the hosts the pairs of one more step, if there is one.
func (s *Schedule) fill() bool {
	if s.next == s.end {
		return false
	}
	for _, p := range s.of(s.next) {
		for _, i := range []int{p.From, p.To} {
			q := &s.queues[i]
			if q.pairs = append(q.pairs, p); len(q.pairs) == 1 && !q.busy {
				s.look = append(s.look, i)
			}
		}
	}
	s.next++
	return true
}

func remove(q *queue, p Pair) {
	if i := slices.Index(q.pairs, p); i >= 0 {
		q.pairs = slices.Delete(q.pairs, i, i+1)
	}
}

// Further returns a tournament of more rounds of all, after so many were done: first those with other pairs, then all
// again.
func Further(n, done, more int) *Schedule {
	count, of := Rounds.steps(n)
	return newSchedule(n, 2*done, 2*(done+more), func(step int) []Pair { return of(step % count) }, true)
}
