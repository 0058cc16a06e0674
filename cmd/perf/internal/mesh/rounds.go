package mesh

// Pair is a test from one host to another, both by their place in the list.
type Pair struct{ From, To int }

// Order selects the tests that run at the same time.
type Order string

// The orders.
const (
	Rounds Order = "rounds" // disjoint pairs at the same time, as in a tournament
	Single Order = "single" // one pair at a time
	All    Order = "all"    // all at once
)

// Orders lists the orders by name.
var Orders = []Order{Rounds, Single, All}

// Plan returns what runs at the same time, in turn: each pair of n hosts once in each direction.
func (o Order) Plan(n int) [][]Pair {
	rounds := tournament(n)
	if o == Rounds {
		return rounds
	}
	var all []Pair
	for _, r := range rounds {
		all = append(all, r...)
	}
	if o == All {
		return [][]Pair{all}
	}
	var single [][]Pair
	for _, p := range all {
		single = append(single, []Pair{p})
	}
	return single
}

// tournament is the circle method: one stays, the others move by one place each round. With an odd number, the host
// that meets the missing one rests.
func tournament(n int) (rounds [][]Pair) {
	m := n + n%2
	for r := range m - 1 {
		var there, back []Pair
		for i := range m / 2 {
			a, b := (r+i)%(m-1), (r+m-1-i)%(m-1)
			if i == 0 {
				b = m - 1
			}
			if a < n && b < n {
				there, back = append(there, Pair{a, b}), append(back, Pair{b, a})
			}
		}
		rounds = append(rounds, there, back)
	}
	return rounds
}
