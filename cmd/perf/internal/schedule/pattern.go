package schedule

import "slices"

// Pair is a test from one host to another, both by their number.
type Pair struct{ From, To int }

// Order selects the tests, and which run at the same time.
type Order string

// The orders.
const (
	Rounds    Order = "rounds"    // disjoint pairs at the same time, as in a tournament
	Single    Order = "single"    // one pair at a time
	All       Order = "all"       // all at once
	Ring      Order = "ring"      // each host to the next one, all at once
	Incast    Order = "incast"    // all others to one host, each host in turn
	Outcast   Order = "outcast"   // one host to all others, each host in turn
	Bisection Order = "bisection" // each host of one half and one of the other half, all at once
)

// Orders lists the orders by name.
var Orders = []Order{Rounds, Single, All, Ring, Incast, Outcast, Bisection}

// steps returns how many steps an order has for n hosts, and the pairs of each. Each step has all that run at the same
// time.
func (o Order) steps(n int) (int, func(step int) []Pair) {
	m := n + n%2
	switch o {
	case Rounds:
		return 2 * (m - 1), func(s int) []Pair { return round(n, s) }
	case Single:
		return n * (n - 1), func(s int) []Pair {
			from, to := s/(n-1), s%(n-1)
			if to >= from {
				to++
			}
			return []Pair{{from, to}}
		}
	case Ring:
		return 1, func(int) (list []Pair) {
			for i := range n {
				list = append(list, Pair{i, (i + 1) % n})
			}
			return list
		}
	case Incast, Outcast:
		return n, func(s int) (list []Pair) {
			for i := range n {
				if p := (Pair{i, s}); i != s && o == Outcast {
					list = append(list, Pair{s, i})
				} else if i != s {
					list = append(list, p)
				}
			}
			return list
		}
	case Bisection:
		return 1, func(int) (list []Pair) {
			for i := range n / 2 {
				list = append(list, Pair{i, i + n/2}, Pair{i + n/2, i})
			}
			return list
		}
	}
	return 1, func(int) (list []Pair) {
		for s := range 2 * (m - 1) {
			list = append(list, round(n, s)...)
		}
		return list
	}
}

// Whole reports whether an order has all pairs.
func (o Order) Whole() bool { return o != Ring && o != Bisection }

// Together returns how many tests of one host an order runs at the same time.
func (o Order) Together(n int) int {
	switch o {
	case All:
		return 2 * (n - 1)
	case Incast, Outcast:
		return n - 1
	case Ring, Bisection:
		return 2
	}
	return 1
}

// round is half of a round of the circle method: one host stays, the others move by one place each round. With an odd
// number, the host that meets the missing one rests. Each round is played there (even) and back (odd).
func round(n, step int) (list []Pair) {
	m, r := n+n%2, step/2
	for i := range m / 2 {
		a, b := (r+i)%(m-1), (r+m-1-i)%(m-1)
		if i == 0 {
			b = m - 1
		}
		if step%2 == 1 {
			a, b = b, a
		}
		if a < n && b < n {
			list = append(list, Pair{a, b})
		}
	}
	return list
}

// sample chooses some of the rounds of a tournament, spread over all.
func sample(n, some int) []int {
	all := n + n%2 - 1
	some = min(some, all)
	var steps []int
	for i := range some {
		r := i * all / some
		steps = append(steps, 2*r, 2*r+1)
	}
	return slices.Clip(steps)
}
