//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// manyPieces is more than a WQE has segments.
const manyPieces = 64

// carry moves a message of n bytes from lists.src, memory of src, to lists.dst, memory of dst: with the batch if it
// fits.
func (rq *requester) carry(qp *hca.QP, w *wqe, src, dst guest.Mem, n uint64) verdict {
	b := rq.b
	if n == 0 {
		return proceed
	}
	if hasSigned(rq.lists.src) || hasSigned(rq.lists.dst) {
		return rq.carrySigned(qp, w, n)
	}
	sink := false
	for i := range rq.lists.dst {
		sink = sink || rq.lists.dst[i].zero || rq.lists.dst[i].far(dst)
	}
	if sink || n > bounce || len(rq.lists.src) > manyPieces || len(rq.lists.dst) > manyPieces {
		if b.wqes > 0 {
			return alone
		}
		return rq.bulk(qp, src, dst, n, sink)
	}
	if !b.fits(src, dst, rq.lists.src, n) {
		return rq.failed(qp, w, synLocalLength) // in an empty batch too many spans, which 63 segments cannot be
	}
	if side := b.add(src, dst, rq.lists.src, rq.lists.dst, 0, n); side != okSide {
		if b.wqes > 0 {
			return broken
		}
		rq.badMemory(qp, side)
		return halt
	}
	return proceed
}

// bulk moves a message that is larger than the bounce buffer, or part of which goes nowhere or far. Between its pieces
// others may have the fabric's lock; if they change a queue meanwhile, the message starts again.
func (rq *requester) bulk(qp *hca.QP, src, dst guest.Mem, n uint64, sink bool) verdict {
	b := rq.b
	step := uint64(bounce)
	for off := uint64(0); off < n; {
		k := min(n-off, step)
		to := rq.lists.dst
		if sink { // piece by piece of the target
			var at uint64
			for i := range rq.lists.dst {
				p := rq.lists.dst[i]
				if off < at+p.n {
					k = min(k, at+p.n-off)
					p.va, p.n = p.va+off-at, p.n-(off-at)
					b.single[0] = p
					to = b.single[:1]
					break
				}
				at += p.n
			}
			if to[0].zero {
				off += k
				continue
			}
			if !rq.fine(qp, b.add(src, dst, rq.lists.src, nil, off, k)) {
				return halt
			}
			if to[0].far(dst) {
				if !rq.fine(qp, b.store(to[0].mem, to[0].va)) {
					return halt
				}
				off += k
				continue
			}
			b.siov = append(b.siov, guest.IOV{Base: to[0].va, Len: k})
		} else if !rq.fine(qp, b.add(src, dst, rq.lists.src, to, off, k)) {
			return halt
		}
		if !rq.commit(qp) {
			return halt
		}
		off += k
		if off < n && rq.yield() {
			return halt
		}
	}
	rq.restarts = 0
	return proceed
}

// store writes what is in the batch to far memory, at once.
func (b *batch) store(m guest.Mem, va uint64) int {
	if b.gather() != nil {
		return badSource
	}
	if b.flip >= 0 && b.flip < b.n {
		b.buf[b.flip] ^= 1
	}
	b.flip = -1
	b.err = m.Write(va, b.buf[:b.n])
	b.n, b.moved = 0, false
	if b.err != nil {
		return badTarget
	}
	return okSide
}

// yield lets others have the lock when this turn is over. It reports whether they changed something.
func (rq *requester) yield() bool {
	if rq.restarts > 3 || nanos() < rq.turns.limit {
		return false
	}
	rq.comps.writeLater()
	rq.comps.notify()
	epoch := rq.routes.epoch
	rq.turns.yielding = true
	rq.f.Mutex.Unlock()
	rq.f.Mutex.Lock()
	rq.turns.yielding = false
	rq.turns.limit = nanos() + int64(rq.c.Turn)
	if rq.routes.epoch == epoch && !rq.turns.stop {
		return false
	}
	rq.restarts++
	return true
}
