package layer

import "testing"

// TestBeyond: memory that is less than a part of it is not known. Blocks that are not resident make it so.
func TestBeyond(t *testing.T) {
	before := Memory{Conns: 1, Heap: 100, Resident: 1000}
	for resident, want := range map[int64]int64{1500: 500, 1300: 300, 1299: 0, 1: 0} {
		m := (Memory{Conns: 3, Heap: 400, Resident: resident}).beyond(before)
		if m == nil || m.Conns != 2 || m.Heap != 300 || m.Resident != want {
			t.Errorf("resident %d: %+v, want %d", resident, m, want)
		}
	}
	if m := before.beyond(before); m != nil {
		t.Errorf("without a connection: %+v", m)
	}
}
