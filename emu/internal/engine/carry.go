//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// manyPieces is more than a WQE has segments.
const manyPieces = 64

// carry moves a message of n bytes from e.src, memory of src, to e.dst, memory of dst: with the batch if it fits.
func (e *Engine) carry(qp *hca.QP, w *wqe, src, dst guest.Mem, n uint64) verdict {
	b := &e.b
	if n == 0 {
		return proceed
	}
	if hasSigned(e.src) || hasSigned(e.dst) {
		return e.carrySigned(qp, w, n)
	}
	sink := false
	for i := range e.dst {
		sink = sink || e.dst[i].zero || e.dst[i].far(dst)
	}
	if sink || n > uint64(e.c.Bounce) || len(e.src) > manyPieces || len(e.dst) > manyPieces {
		if b.wqes > 0 {
			return alone
		}
		return e.bulk(qp, src, dst, n, sink)
	}
	if !b.fits(src, dst, e.src, n, e.c.Bounce) {
		return e.failed(qp, w, synLocalLength) // in an empty batch too many spans, which 63 segments cannot be
	}
	if side := b.add(src, dst, e.src, e.dst, 0, n); side != okSide {
		if b.wqes > 0 {
			return broken
		}
		e.badMemory(qp, side)
		return halt
	}
	return proceed
}

// bulk moves a message that is larger than the bounce buffer, or part of which goes nowhere or far. Between its pieces
// others may have the fabric's lock; if they change a queue meanwhile, the message starts again.
func (e *Engine) bulk(qp *hca.QP, src, dst guest.Mem, n uint64, sink bool) verdict {
	b := &e.b
	step := uint64(e.c.Bounce)
	for off := uint64(0); off < n; {
		k := min(n-off, step)
		to := e.dst
		if sink { // piece by piece of the target
			var at uint64
			for i := range e.dst {
				p := e.dst[i]
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
			if side := b.add(src, dst, e.src, nil, off, k); side != okSide {
				e.badMemory(qp, side)
				return halt
			}
			if to[0].far(dst) {
				if side := b.store(to[0].mem, to[0].va); side != okSide {
					e.badMemory(qp, side)
					return halt
				}
				off += k
				continue
			}
			b.siov = append(b.siov, guest.IOV{Base: to[0].va, Len: k})
		} else if side := b.add(src, dst, e.src, to, off, k); side != okSide {
			e.badMemory(qp, side)
			return halt
		}
		if side := e.commit(); side != okSide {
			e.badMemory(qp, side)
			return halt
		}
		off += k
		if off < n && e.yield() {
			return halt
		}
	}
	e.restarts = 0
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
func (e *Engine) yield() bool {
	if e.restarts > 3 || nanos() < e.limit {
		return false
	}
	e.writeLater()
	e.notify()
	epoch := e.epoch
	e.yielding = true
	e.f.Mutex.Unlock()
	e.f.Mutex.Lock()
	e.yielding = false
	e.limit = nanos() + int64(e.c.Turn)
	if e.epoch == epoch && !e.stop {
		return false
	}
	e.restarts++
	return true
}
