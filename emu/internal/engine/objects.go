//go:build linux

package engine

import (
	"math"
	"time"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

var _ hca.Engine = (*Engine)(nil)

// UARAdded starts watching a doorbell page.
func (e *Engine) UARAdded(u *hca.UAR) {
	e.pages = append(e.pages, u)
	e.cond.Signal()
}

// UARRemoved stops watching a doorbell page.
func (e *Engine) UARRemoved(u *hca.UAR) {
	for i, p := range e.pages {
		if p == u {
			e.pages = append(e.pages[:i], e.pages[i+1:]...)
			return
		}
	}
}

// QPCreated makes a QP known.
func (e *Engine) QPCreated(qp *hca.QP) {
	e.epoch++
	qp.Run = hca.QPRun{}
}

// QPModified follows a QP's state.
func (e *Engine) QPModified(qp *hca.QP, from, to hca.QPState) {
	e.epoch++
	r := &qp.Run
	if e.Hooks.Trace != nil && from != to {
		e.traceState(qp, to)
	}
	switch to {
	case hca.Reset:
		e.win.n = 0 // the ring begins anew
		*r = hca.QPRun{Timer: r.Timer + 1, Queued: r.Queued, RQ: r.RQ, Erred: r.Erred}
	case hca.RTR:
		if from != hca.RTR {
			r.EPSN = qp.Attr.RQPSN & 0xffffff
		}
	case hca.RTS:
		if from == hca.RTR {
			r.PSN = qp.Attr.SQPSN & 0xffffff
		}
		if from == hca.SQD {
			e.win.n = 0 // what was posted may have been canceled
		}
		e.push(qp)
	case hca.Err, hca.SQE:
		r.Flush = true
		r.Wait = waitNone
		r.Timer++
		e.push(qp)
	}
}

// QPLeaves lets a QP have what its program rang for before the command, but not for long.
func (e *Engine) QPLeaves(qp *hca.QP) {
	const patience = int64(2 * time.Millisecond)
	r := &qp.Run
	if e.yielding || qp.UAR == nil || qp.Context.Dead {
		return
	}
	limit := e.limit
	e.now = nanos()
	e.limit = math.MaxInt64 // the lock stays ours
	e.scan(qp.UAR)
	batch := e.c.Batch
	if qp.State != hca.RTS {
		batch = 0 // a doorbell in another state is seen, and carries out nothing
	}
	for range batch {
		if !r.Look && (r.Tail == r.Announced || !e.runs(qp)) || nanos() > e.now+patience {
			break
		}
		e.exec(qp)
	}
	e.limit = limit
}

// QPDestroyed forgets a QP.
func (e *Engine) QPDestroyed(qp *hca.QP) {
	e.epoch++
	r := &qp.Run
	r.Dead, r.Peer = true, nil
	r.Timer++
	e.ready = without(e.ready, qp)
	e.erred = without(e.erred, qp)
	for i := range e.held {
		if e.held[i].qp == qp {
			e.held[i].qp = nil
		}
	}
}

func without[T any](s []*T, x *T) []*T {
	for i, p := range s {
		if p == x {
			return append(s[:i], s[i+1:]...)
		}
	}
	return s
}

// CQCreated makes a CQ known. The arm word of its doorbell record gets a value that no program writes: its first arming
// could be the 0 that is there.
func (e *Engine) CQCreated(cq *hca.CQ) {
	cq.Run = hca.CQRun{LastArm: neverArmed}
	put32(e.io.tmp[:], neverArmed)
	_ = cq.Mem.Write(cq.DB+4, e.io.tmp[:4])
}

// CQDestroyed forgets a CQ.
func (e *Engine) CQDestroyed(cq *hca.CQ) {
	cq.Run.Dead = true
	cq.Run.Timer++
	kept := e.held[:0]
	for _, p := range e.held {
		if p.cq != cq {
			kept = append(kept, p)
		}
	}
	e.held = kept
	e.toNotify, e.broken = without(e.toNotify, cq), without(e.broken, cq)
}

// CQUnpolled counts from the consumer index as it is now.
func (e *Engine) CQUnpolled(cq *hca.CQ) uint32 {
	e.roomy(cq)
	return cq.Run.PI - cq.Run.CI
}

// CQResized writes the completion that ends the old ring.
func (e *Engine) CQResized(cq *hca.CQ, oldBuf uint64, oldEntries, oldSize uint32) {
	r := &cq.Run
	var img [64]byte
	img[63] = cqeResize<<4 | ownerBit(r.PI, oldEntries)
	at := oldBuf + uint64(r.PI&(oldEntries-1))*uint64(oldSize) + uint64(oldSize-64)
	_ = cq.Mem.WriteV(img[:], []guest.IOV{{Base: at, Len: 56}, {Base: at + 56, Len: 8}})
	r.PI++
}

// SRQCreated makes an SRQ known.
func (e *Engine) SRQCreated(srq *hca.SRQ) {
	srq.Run = hca.SRQRun{Armed: srq.Limit > 0, Tags: hca.TagRun{List: make([]hca.Tag, srq.Tags)}}
}

// SRQDestroyed forgets an SRQ.
func (e *Engine) SRQDestroyed(srq *hca.SRQ) { e.epoch++ }

// SRQLimitArmed arms the limit event; it comes at once when the SRQ is below it.
func (e *Engine) SRQLimitArmed(srq *hca.SRQ) {
	srq.Run.Armed = srq.Limit > 0
	if srq.Run.Armed && e.srqFetch(srq) {
		e.srqLimit(srq)
	}
}

// KeyRevoked comes when a key is gone or changed: what was compared of it is void.
func (e *Engine) KeyRevoked(k *hca.MKey) {
	e.epoch++
	e.strict.revoked(k)
	k.Run = hca.KeyRun{}
}

// PortChanged follows a port: what waits for an answer may get it now, at its next retry.
func (e *Engine) PortChanged(*hca.Port) { e.epoch++ }
