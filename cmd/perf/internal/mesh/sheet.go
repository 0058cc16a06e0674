package mesh

// sheet has one figure of all pairs, and what it says of their NICs.
//
// Each figure is compared with the middle of its class: pairs with their ends in the same two groups. The effect of a
// NIC is the median of that, over its pairs where it sends, or where it receives. A NIC is slow if its effect is far
// from those of its group (Outliers), and if its values are so low that they hardly come together by chance (pool).
type sheet struct {
	f      Figure
	o      Outliers
	nics   []entry
	tests  []test
	groups []group
	middle map[[2]int]float64 // of classes
	limits shares
}

// test is a figure of a pair.
type test struct {
	pair int    // in the result
	nics [2]int // that sends, that receives
	x    float64
	good float64 // a logarithm that is larger for what is better
	d    float64 // the same, from the middle of its class
}

// entry is a NIC that has a figure.
type entry struct {
	end
	kind
	name  string
	group int
	part  [2]part // sends, receives
}

// part has the figures of a NIC where it sends, or where it receives.
type part struct {
	values []float64 // from the middles of their classes, the best first
	median float64   // of the figures themselves
	effect float64
	far    bool // the effect is far from those of the group
	whole  bool // so are nearly all values, which therefore show nothing of how the figures of good NICs scatter
	slow   bool
}

// kind has the properties that NICs share if they are compared with each other.
type kind struct {
	rail string  // empty: of any name
	rate float64 // of the link, in bits per second; 0: not known
}

// group is NICs that are compared with each other.
type group struct {
	kind
	shown bool  // its figures tell it from others
	nics  []int // of the sheet

	spread [2]float64 // of the effects, where the NICs send and where they receive
	tests  []*test    // of NICs that are not slow, the worst first
	pool   pool       // the same
	noise  float64    // of the pool
	shows  float64    // the least loss that would have shown in 95 % of runs, as a logarithm
}

// level is how good a NIC is with good partners: the upper quartile of its figures.
type level struct {
	nic int
	x   float64
}
