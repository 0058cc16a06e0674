//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// foresee makes the WQEs of qp, whose turn it is, the window. If they were not read yet, it reads them, with those of
// the QPs behind it.
func (sn *sendQueues) foresee(qp *hca.QP) {
	a := &sn.ahead
	if a.next == a.n || a.epoch != sn.routes.epoch || a.list[a.next].qp != qp {
		if a.n, a.next = 0, 0; len(sn.ready.qps) < fewReady {
			return
		}
		sn.readAhead(qp)
	}
	x := &a.list[a.next]
	a.next++
	if w := sn.win; x.n > 0 && x.from == qp.Run.Tail {
		w.qp, w.from, w.n = qp, x.from, x.n
		copy(w.buf[:], a.buf[x.at:][:x.n<<blockShift])
	}
}

// readAhead reads the WQEs of qp and of the QPs behind it: those of each process by one call.
func (sn *sendQueues) readAhead(qp *hca.QP) {
	a := &sn.ahead
	a.epoch, a.next = sn.routes.epoch, 0
	a.n = 1 + min(len(sn.ready.qps), aheadQPs-1)
	list := a.list[:a.n]
	list[0] = sn.toRead(qp)
	for i := range list[1:] {
		list[1+i] = sn.toRead(sn.ready.qps[i])
	}
	size := 0
	for i := range list {
		if list[i].n == 0 || list[i].at >= 0 {
			continue
		}
		from, m, v := size, list[i].qp.Mem, sn.io.riov[:0]
		for k := i; k < len(list); k++ {
			if x := &list[k]; x.n > 0 && x.qp.Mem == m {
				v = spansOf(v, &x.qp.SQ, x.from, x.n)
				x.at = size
				size += int(x.n) << blockShift
			}
		}
		if m.ReadV(a.buf[from:size], v) != nil {
			for i := range list {
				list[i].n = 0 // each is read alone, which tells whose memory is bad
			}
			return
		}
	}
}

// toRead returns what is to be read of a QP: nothing if it does not execute, or has much to do.
func (sn *sendQueues) toRead(qp *hca.QP) aheadQP {
	r := &qp.Run
	x := aheadQP{qp: qp, from: r.Tail, at: -1}
	if n := r.Announced - r.Tail; n <= aheadBlocks && !r.Look && len(r.Rendezvous) == 0 && sn.runs(qp) {
		x.n = n
	}
	return x
}
