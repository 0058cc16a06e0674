//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// modified follows a QP's state.
func (st *states) modified(qp *hca.QP, from, to hca.QPState) {
	st.routes.changed()
	r := &qp.Run
	if st.hooks.Trace != nil && from != to {
		st.tr.traceState(qp, to)
	}
	switch to {
	case hca.Reset:
		st.win.forget() // the ring begins anew
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
			st.win.forget() // what was posted may have been canceled
		}
		st.ready.push(qp)
	case hca.Err, hca.SQE:
		r.Flush = true
		r.Wait = waitNone
		r.Timer++
		st.ready.push(qp)
	}
}

// toErr moves a QP to ERR, from where it is flushed in the next turn.
func (st *states) toErr(qp *hca.QP) {
	if qp.State == hca.Reset || qp.State == hca.Err || qp.Run.Dead {
		return
	}
	from := qp.State
	qp.ForceError()
	if qp.State == hca.Err && !qp.Run.Flush {
		st.modified(qp, from, hca.Err)
	}
}

// fatal is a catastrophic error of a QP.
func (st *states) fatal(qp *hca.QP) {
	if qp.State == hca.Reset || qp.State == hca.Err || qp.Run.Dead {
		return
	}
	qp.Fatal()
	st.toErr(qp)
}
