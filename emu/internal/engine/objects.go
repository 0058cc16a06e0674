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
	e.ready.cond.Signal()
}

// UARRemoved stops watching a doorbell page.
func (e *Engine) UARRemoved(u *hca.UAR) { e.pages = without(e.pages, u) }

// QPCreated makes a QP known.
func (e *Engine) QPCreated(qp *hca.QP) {
	e.routes.changed()
	qp.Run = hca.QPRun{}
}

// QPModified follows a QP's state.
func (e *Engine) QPModified(qp *hca.QP, from, to hca.QPState) { e.states.modified(qp, from, to) }

// QPLeaves lets a QP have what its program rang for before the command, but not for long.
func (e *Engine) QPLeaves(qp *hca.QP) {
	const patience = int64(2 * time.Millisecond)
	r := &qp.Run
	if e.turns.yielding || qp.UAR == nil || qp.Context.Dead {
		return
	}
	limit := e.turns.limit
	e.turns.now = nanos()
	e.turns.limit = math.MaxInt64 // the lock stays ours
	e.scan()
	batch := e.c.Batch
	if qp.State != hca.RTS {
		batch = 0 // a doorbell in another state is seen, and carries out nothing
	}
	for range batch {
		if !r.Look && (r.Tail == r.Announced || !e.sends.runs(qp)) || nanos() > e.turns.now+patience {
			break
		}
		e.exec(qp)
	}
	e.turns.limit = limit
}

// QPDestroyed forgets a QP.
func (e *Engine) QPDestroyed(qp *hca.QP) {
	e.routes.changed()
	r := &qp.Run
	r.Dead, r.Peer = true, nil
	r.Timer++
	e.ready.remove(qp)
	e.erred = without(e.erred, qp)
	e.comps.forgetQP(qp)
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
	e.comps.forget(cq)
}

// CQUnpolled counts from the consumer index as it is now.
func (e *Engine) CQUnpolled(cq *hca.CQ) uint32 {
	e.comps.roomy(cq)
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
func (e *Engine) SRQDestroyed(srq *hca.SRQ) { e.routes.changed() }

// SRQLimitArmed arms the limit event; it comes at once when the SRQ is below it.
func (e *Engine) SRQLimitArmed(srq *hca.SRQ) {
	srq.Run.Armed = srq.Limit > 0
	if srq.Run.Armed && e.recvs.srqFetch(srq) {
		e.recvs.srqLimit(srq)
	}
}

// KeyRevoked comes when a key is gone or changed: what was compared of it is void.
func (e *Engine) KeyRevoked(k *hca.MKey) {
	e.routes.changed()
	e.strict.revoked(k)
	k.Run = hca.KeyRun{}
}

// PortChanged follows a port: what waits for an answer may get it now, at its next retry.
func (e *Engine) PortChanged(*hca.Port) { e.routes.changed() }
