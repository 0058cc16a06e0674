//go:build linux

package cm

// maxIDs bounds a table: a limit that the kernel does not know.
const maxIDs = 1 << 16

// table hands out the lowest free number.
type table[T any] struct {
	slots []*T
	low   int // nothing is free below
	used  int
}

func (t *table[T]) add(v *T) (uint32, bool) {
	if t.used >= maxIDs {
		return 0, false
	}
	for t.low < len(t.slots) && t.slots[t.low] != nil {
		t.low++
	}
	if t.low == len(t.slots) {
		t.slots = append(t.slots, nil)
	}
	t.slots[t.low] = v
	t.used++
	return uint32(t.low), true
}

// get returns what has a number, or nil.
func (t *table[T]) get(n uint32) *T {
	if uint64(n) >= uint64(len(t.slots)) {
		return nil
	}
	return t.slots[n]
}

func (t *table[T]) drop(n uint32) {
	if t.get(n) == nil {
		return
	}
	t.slots[n] = nil
	t.used--
	t.low = min(t.low, int(n))
}
