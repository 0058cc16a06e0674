//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// flush completes what is outstanding on a QP in ERR, or on the send queue of one in SQE.
func (e *Engine) flush(qp *hca.QP) {
	r := &qp.Run
	first := r.Flush
	r.Flush = false
	e.batches.begin(qp)
	e.comps.writeLater()
	room := func() bool { return len(e.b.cqes) < cap(e.b.cqes) }
	more := !e.cancelRendezvous(qp)
	e.io.records([]*hca.QP{qp}, func(_ *hca.QP, rq, sq uint16) {
		if qp.SQ.Count > 0 {
			if d := uint32(sq - uint16(r.Tail)); d <= qp.SQ.Count && (qp.State == hca.Err || first) {
				r.Announced = r.Tail + d // whether it was rung or not
			}
		}
		if qp.RQ.Count > 0 && qp.State == hca.Err {
			e.recvs.rqPosted(qp, rq)
		}
	})
	e.strict.announced(qp)
	e.sends.win.forget()
	for r.Tail != r.Announced {
		if more = !room(); more {
			break
		}
		if !e.sends.load(qp, r.Tail) {
			r.Tail = r.Announced
			break
		}
		w := &e.sends.w
		rule := badControl(qp, w)
		if rule != "" {
			e.strict.badControl(qp, w, rule)
		}
		if rule == RuleWQESize || qp.SendCQ == nil { // where the next one begins is not known
			r.Tail = r.Announced
			break
		}
		p := e.comps.cqe(qp.SendCQ, qp, cqeReqErr, qp.UIdx, w.opcode, uint16(r.Tail))
		p.fail(synFlush, vendorSyndrome[synFlush])
		r.Tail += w.blocks
		r.Signaled = r.Tail
	}
	r.Asked, r.Fault, r.Strict.Hash, r.Tries, r.RNRTries = false, 0, 0, 0, 0
	if qp.State == hca.Err {
		for ; qp.RQ.Count > 0 && qp.RecvCQ != nil && r.Head != r.Posted; r.Head++ {
			if more = more || !room(); more {
				break
			}
			p := e.comps.cqe(qp.RecvCQ, qp, cqeRespErr, qp.RecvIdx, 0, uint16(nextReceive(r)))
			p.fail(synFlush, vendorSyndrome[synFlush])
		}
	}
	e.batches.commit()
	if more {
		r.Flush = first
		e.ready.push(qp)
		return
	}
	if qp.State != hca.Err {
		return
	}
	if first && (qp.SRQ != nil || qp.Type == hca.XRCRecv) {
		qp.Event(hca.EventQPLastWQEReached)
	}
	if !r.Erred {
		r.Erred = true
		e.erred = append(e.erred, qp)
	}
}

const erredChunk = 32 // QPs in ERR that are looked at in a millisecond

// watchErred looks for receives posted to QPs in ERR: no doorbell tells of them.
func (e *Engine) watchErred() {
	for n := min(len(e.erred), erredChunk); n > 0; n-- {
		if e.nextErred >= len(e.erred) {
			e.nextErred = 0
		}
		qp := e.erred[e.nextErred]
		r := &qp.Run
		if qp.State != hca.Err || r.Dead || qp.Context.Dead {
			r.Erred = false
			e.erred[e.nextErred] = e.erred[len(e.erred)-1]
			e.erred = e.erred[:len(e.erred)-1]
			if len(e.erred) == 0 {
				return
			}
			continue
		}
		e.nextErred++
		if qp.RQ.Count > 0 && qp.RecvCQ != nil {
			e.io.records([]*hca.QP{qp}, func(_ *hca.QP, rq, _ uint16) {
				if rq != uint16(r.Posted) {
					e.ready.push(qp)
				}
			})
		}
	}
}
