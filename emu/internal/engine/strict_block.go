//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// wroteBlock notes a block until the program has consumed it.
func (s *checks) wroteBlock(title *pending) {
	if r := &title.cq.Run; s.on() && !title.cq.IgnoreOverrun {
		r.Blocks = append(r.Blocks, hca.Block{At: title.at, Count: title.block})
	}
}

// consumed looks at the entries of blocks that the consumer index has passed.
func (s *checks) consumed(cq *hca.CQ) {
	r := &cq.Run
	for len(r.Blocks) > 0 {
		b := &r.Blocks[0]
		n := int32(r.CI - b.At)
		if n <= 0 {
			return
		}
		part := hca.Block{At: b.At, Count: min(uint32(n), b.Count)}
		b.At, b.Count = b.At+part.Count, b.Count-part.Count
		if b.Count == 0 {
			r.Blocks = r.Blocks[1:]
		}
		s.givenBack(cq, part)
	}
}

// givenBack checks that no entry of this part of a block passes for a new one on the next lap: it is invalid, or has
// the owner bit of its own lap.
func (s *checks) givenBack(cq *hca.CQ, b hca.Block) {
	const invalid = 0xf0
	var opOwn [hca.MaxBlock]byte
	var v [hca.MaxBlock]guest.IOV
	for i := range b.Count {
		slot := uint64((b.At + i) & (cq.Entries - 1))
		v[i] = guest.IOV{Base: cq.Buf + (slot+1)*uint64(cq.CQESize) - 1, Len: 1}
	}
	if cq.Mem.ReadV(opOwn[:b.Count], v[:b.Count]) != nil {
		return // the next write will tell
	}
	for i, o := range opOwn[:b.Count] {
		if at := b.At + uint32(i); o < invalid && o&1 != ownerBit(at, cq.Entries) {
			s.violateCQ(cq, RuleCQBlock, "entry %d of a block was given back with op_own 0x%x", at&0xffffff, o)
			return
		}
	}
}
