//go:build linux

package engine

import (
	"cmp"
	"slices"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// timer is an entry of the list. It counts only while seq is still that of its object.
type timer struct {
	at  int64
	seq uint32
	qp  *hca.QP
	cq  *hca.CQ
}

// timers is a list in the order of time.
type timers struct{ list []timer }

func (ts *timers) after(d int64, qp *hca.QP, cq *hca.CQ) {
	t := timer{at: nanos() + d, qp: qp, cq: cq}
	if qp != nil {
		qp.Run.Timer++
		t.seq = qp.Run.Timer
	} else {
		cq.Run.Timer++
		t.seq = cq.Run.Timer
	}
	i, _ := slices.BinarySearchFunc(ts.list, t.at+1, func(o timer, at int64) int { return cmp.Compare(o.at, at) })
	ts.list = slices.Insert(ts.list, i, t)
}

func (ts *timers) pop() timer {
	t := ts.list[0]
	ts.list = slices.Delete(ts.list, 0, 1)
	return t
}
