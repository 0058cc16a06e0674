//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// timer is an entry of a binary heap ordered by time. It counts only while seq is still that of its object.
type timer struct {
	at  int64
	seq uint32
	qp  *hca.QP
	cq  *hca.CQ
}

// timers is a heap.
type timers struct{ heap []timer }

func (ts *timers) after(d int64, qp *hca.QP, cq *hca.CQ) {
	t := timer{at: nanos() + d, qp: qp, cq: cq}
	if qp != nil {
		qp.Run.Timer++
		t.seq = qp.Run.Timer
	} else {
		cq.Run.Timer++
		t.seq = cq.Run.Timer
	}
	h := append(ts.heap, t)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up].at <= h[i].at {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	ts.heap = h
}

func (ts *timers) pop() timer {
	h := ts.heap
	t := h[0]
	n := len(h) - 1
	h[0] = h[n]
	h[n] = timer{}
	h = h[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && h[c+1].at < h[c].at {
			c++
		}
		if h[i].at <= h[c].at {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	ts.heap = h
	return t
}
