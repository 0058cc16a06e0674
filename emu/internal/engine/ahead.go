//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

const (
	aheadQPs    = 16 // whose WQEs are read by one call
	aheadBlocks = 8  // of each; a QP that has more is worth a call of its own
)

// wqesAhead is WQEs of the QPs whose turn is next. Where many QPs have one or two WQEs each, reading them one by one
// costs as much as a small message. What was announced does not change before it completes.
type wqesAhead struct {
	list  [aheadQPs]aheadQP // in turn
	n     int
	next  int
	epoch uint64
	buf   [aheadQPs * aheadBlocks << blockShift]byte
}

// aheadQP is blocks of a QP's send queue, from index from on, at a place of wqesAhead.buf.
type aheadQP struct {
	qp      *hca.QP
	from, n uint32
	at      int // below 0: not there
}

// foresee makes the WQEs of qp, whose turn it is, the window. If they were not read yet, it reads them, with those of
// the QPs behind it.
func (e *Engine) foresee(qp *hca.QP) {
	a := &e.ahead
	if a.next == a.n || a.epoch != e.epoch || a.list[a.next].qp != qp {
		if a.n, a.next = 0, 0; len(e.ready) < fewReady {
			return
		}
		e.readAhead(qp)
	}
	x := &a.list[a.next]
	a.next++
	if w := &e.win; x.n > 0 && x.from == qp.Run.Tail {
		w.qp, w.from, w.n = qp, x.from, x.n
		copy(w.buf[:], a.buf[x.at:][:x.n<<blockShift])
	}
}

// readAhead reads the WQEs of qp and of the QPs behind it: those of each process by one call.
func (e *Engine) readAhead(qp *hca.QP) {
	a := &e.ahead
	a.epoch, a.next = e.epoch, 0
	a.n = 1 + min(len(e.ready), aheadQPs-1)
	list := a.list[:a.n]
	list[0] = e.toRead(qp)
	for i := range list[1:] {
		list[1+i] = e.toRead(e.ready[i])
	}
	size := 0
	for i := range list {
		if list[i].n == 0 || list[i].at >= 0 {
			continue
		}
		from, m, v := size, list[i].qp.Mem, e.io.riov[:0]
		for k := i; k < len(list); k++ {
			if x := &list[k]; x.n > 0 && x.qp.Mem == m {
				v = sendBlocks(v, &x.qp.SQ, x.from, x.n)
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
func (e *Engine) toRead(qp *hca.QP) aheadQP {
	r := &qp.Run
	x := aheadQP{qp: qp, from: r.Tail, at: -1}
	if n := r.Announced - r.Tail; n <= aheadBlocks && !r.Look && len(r.Rendezvous) == 0 && e.runs(qp) {
		x.n = n
	}
	return x
}
