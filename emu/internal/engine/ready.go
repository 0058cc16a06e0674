//go:build linux

package engine

import (
	"slices"
	"sync"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// readyList has the QPs that may have work, in turn.
type readyList struct {
	cond *sync.Cond
	qps  []*hca.QP
}

// push puts a QP in the list of those that may have work.
func (l *readyList) push(qp *hca.QP) {
	if !qp.Run.Queued && !qp.Run.Dead {
		qp.Run.Queued = true
		l.qps = append(l.qps, qp)
		l.cond.Signal()
	}
}

// first takes the QP whose turn it is out of the list.
func (l *readyList) first() *hca.QP {
	qp := l.qps[0]
	copy(l.qps, l.qps[1:])
	l.qps = l.qps[:len(l.qps)-1]
	qp.Run.Queued = false
	return qp
}

func (l *readyList) remove(qp *hca.QP) { l.qps = without(l.qps, qp) }

func without[T any](s []*T, x *T) []*T {
	if i := slices.Index(s, x); i >= 0 {
		return slices.Delete(s, i, i+1)
	}
	return s
}
