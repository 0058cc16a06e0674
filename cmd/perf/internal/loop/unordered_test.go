package loop

import (
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// shuffled completes messages of two links in an order that is not theirs.
type shuffled struct{ ids []uint64 }

func (s *shuffled) Poll(wcs []ibv.WC) (int, error) {
	n := fillIDs(wcs, s.ids)
	s.ids = s.ids[n:]
	return n, nil
}

func fillIDs(wcs []ibv.WC, ids []uint64) int {
	n := min(len(wcs), len(ids))
	for i, id := range ids[:n] {
		wcs[i].ID = id
	}
	return n
}

func TestUnordered(t *testing.T) {
	id := func(link, ord uint64) uint64 { return link<<ordinalBits | ord }
	u := NewUnordered(&shuffled{[]uint64{id(0, 3), id(1, 2), id(0, 1), id(1, 1), id(0, 2)}}, 2)
	var got []uint64
	var wcs [2]ibv.WC
	for {
		n, err := u.Poll(wcs[:])
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		for _, wc := range wcs[:n] {
			got = append(got, wc.ID)
		}
	}
	want := []uint64{id(0, 1), id(1, 1), id(0, 2), id(1, 2), id(0, 3)}
	if len(got) != len(want) {
		t.Fatalf("%d completions, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("completion %d is %#x, want %#x", i, got[i], want[i])
		}
	}
	wcs[0].ID = id(1, 7)
	ready := &shuffled{}
	u = NewUnordered(ready, 2)
	ids := []uint64{id(0, 9), id(1, 4)}
	if n := testing.AllocsPerRun(100, func() { ready.ids = ids; _, _ = u.Poll(wcs[:]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
