//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// Where many queue pairs have a few messages each, a batch is left open, and the next queue pair's messages join it:
// a call for each costs as much as moving some KiB. All that wants an empty batch ends it, as it does within the
// messages of one. If memory turns out to be bad, all is undone, and each queue pair is executed apart. Faults and the
// trace count what is executed, so with them nothing is merged.

// leavesOpen reports whether the batch waits for the next queue pair.
func (bt *batcher) leavesOpen(qp *hca.QP) bool {
	many := len(bt.ready.qps) >= fewReady || len(bt.ready.qps) > 0 && len(bt.b.before) > 0
	h := bt.hooks
	return bt.merging && many && bt.b.wqes < bt.c.Batch && qp.Type == hca.RC && len(bt.recvs.limits) == 0 &&
		len(bt.sigErrs) == 0 && h.AtWQE == nil && h.AtCQE == nil && h.Trace == nil
}

// again reports whether a WQE that was executed can be undone, and executed again: the bytes that it moved are in the
// batch or in a completion.
func (w *wqe) again(moved int) bool {
	switch w.opcode {
	case opSend, opSendImm, opWrite, opWriteImm:
		return moved > 0 || w.n <= 64
	}
	return false
}

// merge permits batches to be left open from now on, or not.
func (bt *batcher) merge(may bool) { bt.merging = may }

// joins reports whether a queue pair's messages can join an open batch.
func (bt *batcher) joins(qp *hca.QP) bool {
	r := &qp.Run
	return bt.merging && qp.Type == hca.RC && qp.State == hca.RTS && !r.Look && len(r.Rendezvous) == 0
}

// close ends an open batch.
func (e *Engine) close() {
	e.batches.merge(false)
	if e.b.wqes == 0 {
		return
	}
	if e.batches.commit() != okSide {
		e.apart()
	}
}

// apart undoes a batch, and executes its queue pairs one by one.
func (e *Engine) apart() {
	list := make([]*hca.QP, 0, e.c.Batch)
	for i := range e.b.before {
		list = append(list, e.b.before[i].qp)
	}
	list = append(list, e.b.qp)
	e.batches.undo()
	e.batches.merge(false)
	for _, qp := range list {
		e.exec(qp)
	}
}
