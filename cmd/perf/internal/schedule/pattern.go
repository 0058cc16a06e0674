package schedule

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

// round is half of a round of the circle method. With an odd number, the host that meets the missing one rests. Each
// round is played there (even) and back (odd).
func round(n, step int) []Pair { return played(n, step, circle(n+n%2, step/2)) }

// circle is a round of the circle method for an even number: one host stays, the others move by one place each round.
func circle(m, r int) (list []Pair) {
	for i := range m / 2 {
		a, b := (r+i)%(m-1), (r+m-1-i)%(m-1)
		if i == 0 {
			b = m - 1
		}
		list = append(list, Pair{a, b})
	}
	return list
}

// played is a list of pairs there or back, without the host that is missing where n is odd.
func played(n, step int, list []Pair) (out []Pair) {
	for _, p := range list {
		if step%2 == 1 {
			p.From, p.To = p.To, p.From
		}
		if p.From < n && p.To < n {
			out = append(out, p)
		}
	}
	return out
}
