//go:build linux

package hca

// Paging is which pages of a region on demand the adapter has: all others fault when it first needs them. The emulator
// reaches the memory in any case; that the program gave a page back is found when that fails.
type Paging struct {
	Counts PageCounts
	blocks map[uint64]*[blockPages / 64]uint64 // bits of the pages there, by address / 2 MiB
}

const blockPages = 512

func (p *Paging) bit(page uint64, make bool) (word *uint64, mask uint64) {
	b := p.blocks[page/blockPages]
	if b == nil {
		if !make {
			return nil, 0
		}
		b = new([blockPages / 64]uint64)
		p.blocks[page/blockPages] = b
	}
	i := page % blockPages
	return &b[i/64], 1 << (i % 64)
}
