package selftest

import (
	"encoding/binary"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// maskedStep is step 7. Nobody has published the order of the words of 16 and 32 bytes, so the bytes are notes.
func maskedStep(s *stage) {
	for _, n := range []int{8, 16, 32} {
		s.check(fmt.Sprintf("fetch and add, %d bytes", n), func(b *box) { masked(b, n, ibv.OpMaskedFetchAdd) })
		s.check(fmt.Sprintf("compare and swap, %d bytes", n), func(b *box) { masked(b, n, ibv.OpMaskedCompareSwap) })
	}
}

// masked executes an atomic whose words and bytes all differ.
func masked(b *box, n int, op ibv.Opcode) {
	x, y, _ := b.pair(pairOptions{path: ibv.DataPathAuto, memory: 4096})
	const at = 64
	ours, theirs := x.mr.Bytes()[:n], y.mr.Bytes()[at:][:n]
	m := &ibv.MaskedAtomic{Size: uint32(n)}
	want := make([]byte, n)
	for w := range n / 8 {
		old := 0x0102030405060708 + uint64(w)*0x1010101010101010
		add := 0x0000000000010203 + uint64(w)
		binary.NativeEndian.PutUint64(theirs[8*w:], old)
		m.SwapAdd[w] = add
		if op == ibv.OpMaskedFetchAdd {
			m.Mask[w] = 1 << 63 // the last bit of a field: each word is one
			binary.NativeEndian.PutUint64(want[8*w:], old+add)
		} else {
			m.Mask[w], m.Compare[w], m.CompareMask[w] = 0xffffff, old, ^uint64(0)
			binary.NativeEndian.PutUint64(want[8*w:], old&^0xffffff|add&0xffffff)
		}
	}
	before := string(theirs)
	x.post(ibv.SendWR{ID: 1, Opcode: op, Flags: ibv.Signaled, SGEs: []ibv.SGE{x.mr.SGE(0, n)},
		Remote: y.mr.Remote().At(at), Masked: m})
	wc := x.next()
	switch wc.Status {
	case ibv.WCSuccess:
	case ibv.WCLocQPOpErr, ibv.WCRemInvReqErr, ibv.WCRemOpErr:
		b.check.Syndromes = append(b.check.Syndromes, syndrome("masked atomic", "requester", wc, ""))
		b.skip("the device does not execute it: %v", wc.Status)
	default:
		b.ok(wc.Err())
	}
	b.note("memory before:   % x", before)
	b.note("memory after:    % x", theirs)
	b.note("memory expected: % x", want)
	b.note("reply:           % x", ours)
	if string(theirs) != string(want) {
		b.fail("the memory is not what was expected; see the notes")
	}
	if string(ours) != before {
		b.fail("the reply is not what was in memory; see the notes")
	}
}
