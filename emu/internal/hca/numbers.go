//go:build linux

package hca

// numbers gives objects of one kind their numbers.
type numbers[T any] struct {
	places []*T // by number
	next   int  // where to look for a free one
	live   int  // how many there are; written by the kind
}

// place puts v into the first free place from next on, so that a number is not used again at once, or appends it while
// the table is shorter than most.
func (n *numbers[T]) place(first, most int, v *T) (int, bool) {
	if len(n.places) < first {
		n.places = append(n.places, make([]*T, first-len(n.places))...)
	}
	// Grow before reusing: only a table that is large looks for holes.
	if len(n.places) < min(most, first+1024) || len(n.places) < most && n.next >= len(n.places) {
		n.places = append(n.places, v)
		n.next = len(n.places)
		if n.next >= most {
			n.next = first
		}
		return len(n.places) - 1, true
	}
	for range 2 {
		for i := max(n.next, first); i < len(n.places); i++ {
			if n.places[i] == nil {
				n.places[i] = v
				n.next = i + 1
				return i, true
			}
		}
		n.next = first
	}
	if len(n.places) < most {
		n.places = append(n.places, v)
		return len(n.places) - 1, true
	}
	return 0, false
}

// at returns what has a number, or nil.
func (n *numbers[T]) at(i uint32) *T {
	if int64(i) < int64(len(n.places)) {
		return n.places[i]
	}
	return nil
}

// free gives a number back.
func (n *numbers[T]) free(i uint32) { n.places[i] = nil }

// each calls do for all, in order.
func (n *numbers[T]) each(do func(*T)) {
	for _, v := range n.places {
		if v != nil {
			do(v)
		}
	}
}
