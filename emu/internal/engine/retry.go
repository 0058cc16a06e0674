//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// What the requester waits for.
const (
	waitNone = iota
	waitAck
	waitRNR
)

// rnrTime is the time of a min_rnr_timer, in µs (InfiniBand specification 9.7.5.2.8).
var rnrTime = [32]int64{
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920,
	2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
}

// noAnswer is a request that nothing answers: it is tried again after the timeout, as often as the QP says.
func (rq *requester) noAnswer(qp *hca.QP, w *wqe) {
	r := &qp.Run
	if rq.hooks.Trace != nil {
		rq.tr.traceRetry(qp, w, synRetry, r.Tries)
	}
	countAt(qp, hca.AckTimeout)
	if r.Tries > qp.Attr.RetryCnt {
		rq.failWQE(qp, w, synRetry)
		return
	}
	r.Tries++
	r.Wait = waitAck
	rq.remember(qp, w)
	if t := qp.Attr.Timeout & 31; t != 0 {
		rq.timers.after(4096<<t, qp, nil)
	}
}

// rnr is a responder without a receive.
func (rq *requester) rnr(qp *hca.QP, w *wqe, us int64) {
	r := &qp.Run
	if rq.hooks.Trace != nil {
		rq.tr.traceRetry(qp, w, synRNR, r.RNRTries)
	}
	countAt(qp, hca.RNRNak)
	countAt(r.Peer, hca.OutOfBuffer)
	if n := qp.Attr.RNRRetry & 7; n < 7 {
		if r.RNRTries >= n {
			rq.failWQE(qp, w, synRNR)
			return
		}
		r.RNRTries++
	}
	r.Wait = waitRNR
	rq.remember(qp, w)
	rq.timers.after(max(us, 10)*1000, qp, nil)
}

// remember makes sure that a WQE that is tried again is read again.
func (rq *requester) remember(qp *hca.QP, w *wqe) {
	if rq.sends.win.forget(); !w.own {
		rq.strict.retried(qp, w)
	}
}
