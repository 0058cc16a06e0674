package mlx5

import (
	"slices"
	"sync"
	"sync/atomic"
)

// QP holds the queues of one QP, which completions find by its number.
type QP struct {
	Num    uint32
	state  atomic.Uint32
	SRQ    *SRQ // nil without
	SQ     SQ   // begins with the poller's fields, in the same cache line
	RC     bool
	RQ     RQ     // unused with an SRQ
	faults faults // of sends; the poller writes them
}

// Bits of QP.state.
const (
	isBroken      = 1 << iota
	carryReceives // completions of receives may carry the payload
	carryResults  // those of reads and atomics may carry the result
	checkReceives // the keys of receives must be checked before they are posted
	checkResults  // the keys of reads and atomics must be
)

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
func (q *QP) Broken() bool { return q.state.Load()&isBroken != 0 }

// Sends reports whether work requests may be posted with no check of their keys.
func (q *QP) Sends() bool { return q.state.Load()&(isBroken|checkResults) == 0 }

// Receives reports whether receives may be posted with no check of their keys.
func (q *QP) Receives() bool { return q.state.Load()&(isBroken|checkReceives) == 0 }

// Carry sets what completions may carry, before the QP is in a Table.
func (q *QP) Carry(receives, results bool) {
	if receives {
		q.state.Or(carryReceives)
	}
	if results {
		q.state.Or(carryResults)
	}
}

// watch is Table.Watch for one QP.
func (q *QP) watch() {
	if q.state.Load()&carryReceives != 0 {
		q.state.Or(checkReceives)
		if q.SRQ != nil {
			q.SRQ.watched.Store(true)
			q.SRQ.plain.Store(0)
		}
		q.RQ.plain.Store(0)
	}
	if q.state.Load()&carryResults != 0 {
		q.state.Or(checkResults)
	}
}

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

	watched atomic.Bool   // see Watch
	null    atomic.Uint64 // 1<<32 and the key of null MRs; 0 if there is none

	bigEndian atomic.Uint32 // see BigEndian

	signed sync.Map // of *SignedKey, by the number of the key
}

// Watch ends what relies on payloads going to memory of this process only. Afterwards, Sends and Receives of QPs whose
// completions may carry payloads are false, and payloads are copied with care.
func (t *Table) Watch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watched.Store(true)
	for _, q := range t.away {
		q.watch()
	}
	for i := range t.pages {
		if p := t.pages[i].Load(); p != nil {
			for j := range p {
				if q := p[j].Load(); q != nil {
					q.watch()
				}
			}
		}
	}
}

// Null sets the key of null MRs, to which nothing is copied.
func (t *Table) Null(key uint32) { t.null.Store(1<<32 | uint64(key)) }

// BigEndian sets the sizes of atomics with masks whose previous value the device returns as big-endian words. They are
// bits: 16|32 are 16 and 32 bytes. The poller swaps these words where they are.
func (t *Table) BigEndian(sizes uint32) { t.bigEndian.Store(sizes) }

// Add adds q to the table. It replaces a QP of the same number.
func (t *Table) Add(q *QP) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watched.Load() {
		q.watch()
	}
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
