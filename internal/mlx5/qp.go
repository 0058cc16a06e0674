package mlx5

import (
	"slices"
	"sync"
	"sync/atomic"
)

// QP holds the queues of one QP, which completions find by its number.
type QP struct {
	Num    uint32
	broken atomic.Bool
	SRQ    *SRQ // nil without
	SQ     SQ   // begins with the poller's fields, in the same cache line
	RC     bool
	RQ     RQ     // unused with an SRQ
	faults faults // of sends; the poller writes them
}

// NewQP returns a QP with these queues. sq and rq may be nil; rq must be nil if srq is not.
func NewQP(num uint32, rc bool, sq *SQConfig, rq *RQConfig, srq *SRQ) *QP {
	q := &QP{Num: num, SRQ: srq, RC: rc}
	if sq != nil {
		q.SQ.init(num, sq)
	} else {
		q.SQ.slots = new(slot) // an entry that is never posted
	}
	if rq != nil {
		q.RQ.init(rq)
	}
	return q
}

// Broken reports whether a corrupt completion named this QP, whose queues can then no longer be trusted.
func (q *QP) Broken() bool { return q.broken.Load() }

// Reset empties the queues, as the device does in the state RESET. The queues must be idle and the QP's completions
// purged.
func (q *QP) Reset() {
	q.SQ.reset()
	q.faults = faults{}
	if q.RQ.buf != nil {
		q.RQ.reset()
	}
}

const (
	tableShift = 12
	tablePage  = 1 << tableShift
)

// Table finds a QP by its number in two loads. All CQs of a device share one. It is safe for concurrent use.
type Table struct {
	mu    sync.Mutex
	away  []*QP // suspended
	news  int   // QPs that are getting their numbers
	pages [numberMask>>tableShift + 1]atomic.Pointer[[tablePage]atomic.Pointer[QP]]
	count [numberMask>>tableShift + 1]int
}

// Add adds q to the table. It replaces a QP of the same number.
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

// Remove removes q, and frees the page if no QP is left in it.
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

// Suspend hides q while its rings are freed or emptied. The caller then calls Leave on each of its CQs. After that no
// poller reads the rings, and a poller that finds a completion of q returns ErrSuspended. Resume or Forget ends the
// suspension.
func (t *Table) Suspend(q *QP) {
	t.mu.Lock()
	t.away = append(t.away, q)
	t.mu.Unlock()
	t.Remove(q)
}

// Resume adds q again, which was suspended.
func (t *Table) Resume(q *QP) {
	t.Add(q)
	t.Forget(q)
}

// Forget ends the suspension of q without adding it again. No completion of q may be left.
func (t *Table) Forget(q *QP) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away = slices.DeleteFunc(t.away, func(o *QP) bool { return o == q })
}

// Expect announces that a QP with an unknown number will be added. Until Expected, a poller that finds a completion of
// a QP that is not there returns ErrSuspended.
func (t *Table) Expect() { t.expect(1) }

// Expected ends the effect of Expect.
func (t *Table) Expected() { t.expect(-1) }

func (t *Table) expect(n int) {
	t.mu.Lock()
	t.news += n
	t.mu.Unlock()
}

// suspended reports whether the QP with this number is suspended, or may be one that is expected.
func (t *Table) suspended(num uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.news > 0 || slices.ContainsFunc(t.away, func(o *QP) bool { return o.Num == num })
}

// Find returns the QP with this number, or nil.
func (t *Table) Find(num uint32) *QP {
	p := t.pages[num>>tableShift&(numberMask>>tableShift)].Load()
	if p == nil {
		return nil
	}
	return p[num%tablePage].Load()
}
