package mlx5

import (
	"slices"
	"sync"
	"sync/atomic"
)

// QP is what a completion leads to: the queues of one QP.
type QP struct {
	Num    uint32
	RC     bool
	SRQ    *SRQ // nil without
	SQ     SQ   // begins with what the poller needs, in the same cache line
	RQ     RQ   // unused with an SRQ
	broken atomic.Bool
}

// NewQP takes the queues over. Either may be nil, and there is no rq with an srq.
func NewQP(num uint32, rc bool, sq *SQConfig, rq *RQConfig, srq *SRQ) *QP {
	q := &QP{Num: num, SRQ: srq, RC: rc}
	if sq != nil {
		q.SQ.init(num, sq)
	} else {
		q.SQ.slots = make([]slot, 1) // which is never posted
	}
	if rq != nil {
		q.RQ.init(rq)
	}
	return q
}

// Broken says that a corrupt completion named this QP: nothing of it can be trusted any more.
func (q *QP) Broken() bool { return q.broken.Load() }

// Reset follows the device into the state RESET. The queues must be idle, and completions of the QP purged.
func (q *QP) Reset() {
	q.SQ.reset()
	if q.RQ.buf != nil {
		q.RQ.reset()
	}
}

const (
	tableShift = 12
	tablePage  = 1 << tableShift
)

// Table finds the QP of a number in two loads. One serves all CQs of a context. It is safe for concurrent use.
type Table struct {
	mu    sync.Mutex
	away  []*QP // suspended
	pages [numberMask>>tableShift + 1]atomic.Pointer[[tablePage]atomic.Pointer[QP]]
	count [numberMask>>tableShift + 1]int
}

// Add makes q known. A number that is there already is replaced.
func (t *Table) Add(q *QP) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := q.Num & numberMask
	p := t.pages[n>>tableShift].Load()
	if p == nil {
		p = new([tablePage]atomic.Pointer[QP])
		t.pages[n>>tableShift].Store(p)
	}
	if p[n%tablePage].Swap(q) == nil {
		t.count[n>>tableShift]++
	}
}

// Remove forgets q, and gives a page without QPs back.
func (t *Table) Remove(q *QP) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := q.Num & numberMask
	p := t.pages[n>>tableShift].Load()
	if p == nil || !p[n%tablePage].CompareAndSwap(q, nil) {
		return
	}
	if t.count[n>>tableShift]--; t.count[n>>tableShift] == 0 {
		t.pages[n>>tableShift].Store(nil)
	}
}

// Suspend hides q while its rings are taken away or emptied. Then Leave each of its CQs: after that no poller reads the
// rings, and one that comes to a completion of q returns ErrSuspended. Resume or Forget ends it.
func (t *Table) Suspend(q *QP) {
	t.mu.Lock()
	t.away = append(t.away, q)
	t.mu.Unlock()
	t.Remove(q)
}

// Resume makes a suspended q known again.
func (t *Table) Resume(q *QP) {
	t.Add(q)
	t.Forget(q)
}

// Forget ends the suspension of q, of which no completion may be left.
func (t *Table) Forget(q *QP) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away = slices.DeleteFunc(t.away, func(o *QP) bool { return o == q })
}

// suspended reports whether num is the number of a suspended QP.
func (t *Table) suspended(num uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.away, func(o *QP) bool { return o.Num == num })
}

// Find returns the QP of a number, nil for none.
func (t *Table) Find(num uint32) *QP {
	p := t.pages[num>>tableShift&(numberMask>>tableShift)].Load()
	if p == nil {
		return nil
	}
	return p[num%tablePage].Load()
}
