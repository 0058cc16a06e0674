//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// begin starts an empty batch of qp, or goes on with one that was left open.
func (bt *batcher) begin(qp *hca.QP) {
	b, r := bt.b, &qp.Run
	if b.wqes > 0 {
		b.before = append(b.before, b.part)
	} else {
		b.clear()
		b.srq, b.flip, b.receive = nil, -1, fault.None
		bt.lists.paged = false
	}
	b.part = part{qp: qp, tail: r.Tail, psn: r.PSN, signaled: r.Signaled, count: r.Count, reads: r.Reads,
		asked: r.Asked, tries: r.Tries, rnr: r.RNRTries}
}

// undo puts the queues back to where the batch began.
func (bt *batcher) undo() {
	b := bt.b
	b.part.undo()
	for i := len(b.before) - 1; i >= 0; i-- {
		b.before[i].undo()
	}
	if b.srq != nil {
		b.srq.Run.Next, b.srq.Run.Used, b.srq.Run.Valid = b.next, b.used, 0
	}
	bt.sigErrs = bt.sigErrs[:0]
	b.clear()
}

// commit moves the payloads and writes the completions. On a bad side nothing was completed, and the caller undoes.
func (bt *batcher) commit() int {
	b := bt.b
	if b.gather() != nil {
		return badSource
	}
	if b.flip >= 0 && b.flip < b.n {
		b.buf[b.flip] ^= 1
	}
	n, k := b.n, len(b.siov)
	bt.comps.number()
	for i := range b.cqes {
		if p := &b.cqes[i]; !p.drop && !p.inBlock && n > 0 && p.cq.Mem == b.dst {
			b.n += p.image(b.buf[b.n:])
			b.siov = p.spans(b.siov)
		}
	}
	if n > 0 {
		if err := b.dst.WriteV(b.buf[:b.n], b.siov); err != nil {
			if b.err = err; b.n == n || b.dst.WriteV(b.buf[:n], b.siov[:k]) != nil {
				bt.comps.unnumber()
				return badTarget
			}
			for i := range b.cqes {
				if p := &b.cqes[i]; !p.drop && p.cq.Mem == b.dst {
					bt.comps.lostCQ(p.cq, err)
				}
			}
		}
	}
	if (n > 0 || b.wqes > 0) && len(bt.ready.qps) >= fewReady {
		bt.comps.postpone(n > 0)
	}
	for i := 0; i < len(b.cqes); {
		if p := &b.cqes[i]; p.drop || p.inBlock || n > 0 && p.cq.Mem == b.dst {
			i++
			continue
		}
		i = bt.comps.writeCQEs(b.cqes, i, n > 0)
	}
	for i := range b.cqes {
		if b.cqes[i].block > 0 {
			bt.comps.writeBlock(i)
		}
	}
	for i := range b.cqes {
		if p := &b.cqes[i]; !p.drop {
			bt.comps.written(p)
		}
	}
	for i := range b.uncounted {
		b.uncounted[i].count()
	}
	b.clear()
	bt.comps.notify()
	return okSide
}

// stopLater has a QP be stopped when the batch is through.
func (bt *batcher) stopLater(qp *hca.QP) { bt.sigErrs = append(bt.sigErrs, qp) }

// settled comes when all that follows a batch was done.
func (bt *batcher) settled() { bt.sigErrs = bt.sigErrs[:0] }

// cqTimer is the end of a delay: of completions that were held, or of moderation.
func (bt *batcher) cqTimer(cq *hca.CQ) {
	r := &cq.Run
	if r.Held {
		r.Held = false
		hook := bt.hooks.AtCQE
		bt.hooks.AtCQE = nil
		bt.b.clear()
		more := bt.comps.release(cq)
		bt.commit()
		bt.hooks.AtCQE = hook
		if more {
			r.Held = true
			bt.timers.after(0, nil, cq)
		}
	}
	if r.Timed {
		r.Timed = false
		if r.Armed {
			bt.comps.fire(cq)
			bt.comps.notify()
		}
	}
}
