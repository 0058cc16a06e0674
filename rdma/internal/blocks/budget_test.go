package blocks

import "testing"

// TestBudget_Part lets large blocks take what was not promised to others.
func TestBudget_Part(t *testing.T) {
	const slab = 8 << 20
	all := NewBudget(64<<20, 4<<20)
	large := all.Part(slab)
	all.Promise(40 << 20)
	if !large.addBlocks(slab) || large.addBlocks(slab) {
		t.Error("with 40 of 64 MiB promised, want 8 for large blocks, and not 16")
	}
	if large.slabs(1) != 1 || all.Used() != slab {
		t.Errorf("%d slabs may be there, %d bytes are used; want 1, and 8 MiB", large.slabs(1), all.Used())
	}
	if !large.Offer(6<<20) || large.Offer(1) {
		t.Error("want 6 MiB to be promised, and no more")
	}
	large.dropBlocks(slab)
	if all.Used() != 0 || large.slabs(1) != 0 {
		t.Errorf("%d bytes are used after all, for %d slabs", all.Used(), large.slabs(1))
	}
	all.Promise(-40 << 20)
	if !large.addBlocks(slab) || !all.addBlocks(56<<20) || large.addBlocks(slab) {
		t.Error("want all of the memory to be used, and no more")
	}
}
