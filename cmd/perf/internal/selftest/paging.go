package selftest

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// pagingStep is step 10.
func pagingStep(s *stage) {
	for _, path := range paths {
		for _, sges := range []int{1, 3} {
			s.check(fmt.Sprintf("SRQ of %d SGEs, %v", sges, path), func(b *box) { paged(b, path, sges) })
		}
	}
}

// paged receives into pages that the kernel has taken away after the receive was posted, so that each message faults.
func paged(b *box, path ibv.DataPath, sges int) {
	const receives, room, rounds = 16, 3 * 8192, 20
	x, y := b.side(0, receives*room, path, nil), b.side(1, 4096, path, nil)
	attr := must(y.dev.QueryDevice())(b)
	if attr.Ex != nil && attr.Ex.ODP.RC&ibv.ODPSRQRecv == 0 {
		b.skip("the device has %v for RC on demand, not SRQRecv", attr.Ex.ODP.RC)
	}
	mr := own(y.pd.AllocMR(receives*room, ibv.LocalWrite|ibv.OnDemand, nil))(b)
	mem := mr.Bytes()
	srq := y.srq(2*receives, sges)
	connect(x, y, x.newQP(ibv.QPOptions{}, 0), y.newQP(ibv.QPOptions{SRQ: srq}, 0), nil)
	b.engine(y.qp)
	for round := range rounds {
		if b.ctx.Err() != nil {
			b.check.Wanted = rounds * receives
			return
		}
		for i := range receives {
			list := make([]ibv.SGE, sges)
			for k := range list {
				list[k] = mr.SGE(i*room+k*(room/sges), room/sges)
			}
			b.recv(srq, uint64(i), list...)
		}
		if err := drop(mem); err != nil {
			b.fail("give pages back: %w", err)
		}
		n := func(i int) int { return 1 + (round*4001+i*977)%room }
		for i := range receives {
			fill(x.mr.Bytes()[i*room:][:n(i)], round+i)
			x.post(ibv.SendWR{ID: uint64(i), Opcode: ibv.OpSend, Flags: ibv.Signaled,
				SGEs: []ibv.SGE{x.mr.SGE(i*room, n(i))}})
		}
		for i := range receives {
			x.good(uint64(i))
			wc := y.next()
			b.ok(wc.Err())
			if wc.ID >= receives || wc.ByteLen != uint32(n(i)) {
				b.fail("round %d: message %d of %d bytes completed as %+v", round, i, n(i), wc)
			}
			b.same(fmt.Sprintf("round %d, message %d", round, i), mem[int(wc.ID)*room:][:n(i)], round+i)
			b.check.Count++
		}
	}
}
