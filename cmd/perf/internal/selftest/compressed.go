package selftest

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// compressedStep is step 9.
func compressedStep(s *stage) {
	for _, entry := range []int{64, 128} {
		for _, f := range []mlx5dv.CQEFormats{mlx5dv.CQEHash, mlx5dv.CQEChecksum, mlx5dv.CQEChecksumStride} {
			for _, shared := range []bool{false, true} {
				queue := "RQ"
				if shared {
					queue = "SRQ"
				}
				s.check(fmt.Sprintf("%v, %d-byte completions, %s", f, entry, queue),
					func(b *box) { compressed(b, entry, f, shared) })
			}
		}
	}
}

// compressed sends in bursts, which an adapter under load writes as compressed completions, and checks each.
func compressed(b *box, entry int, format mlx5dv.CQEFormats, shared bool) {
	const burst, room, rounds = 32, 128, 200
	probe := own(ibv.Open(b.at[0].Device))(b)
	attr := must(mlx5dv.QueryDevice(probe))(b)
	if attr.CQECompression.Formats&format == 0 {
		b.skip("the device has the formats %v", attr.CQECompression.Formats)
	}
	o := pairOptions{path: ibv.DataPathDirect, memory: 2 * burst * room,
		cq: &mlx5dv.CQOptions{EntrySize: entry, Compression: format, UntriedCompression: true}}
	if shared {
		o.srqSGEs = 1
	}
	x, y, q := b.pair(o)
	post := func(id uint64) { b.recv(q, id, y.mr.SGE(int(id)*room, room)) }
	for i := range uint64(burst) {
		post(i)
	}
	wrs := make([]ibv.SendWR, burst)
	var wcs [burst]ibv.WC
	for round := range rounds {
		if b.ctx.Err() != nil {
			b.check.Wanted = rounds * burst
			return
		}
		for i := range wrs {
			n := 65 + (round+i)%60
			fill(x.mr.Bytes()[i*room:][:n], round+i)
			wrs[i] = ibv.SendWR{ID: uint64(i), Opcode: ibv.OpSend, SGEs: []ibv.SGE{x.mr.SGE(i*room, n)},
				Flags: ibv.Signaled}
		}
		x.post(wrs...)
		for range burst {
			wc := x.next()
			b.ok(wc.Err())
		}
		for got := 0; got < burst; got++ {
			wcs[got] = y.next()
			b.ok(wcs[got].Err())
			n, id := 65+(round+got)%60, wcs[got].ID
			if id >= burst || wcs[got].ByteLen != uint32(n) || wcs[got].QPN != y.qp.Num() {
				b.fail("round %d: message %d of %d bytes completed as %+v", round, got, n, wcs[got])
			}
			b.same(fmt.Sprintf("round %d, message %d", round, got), y.mr.Bytes()[int(id)*room:][:n], round+got)
			b.check.Count++
		}
		for _, wc := range wcs {
			post(wc.ID)
		}
	}
}
