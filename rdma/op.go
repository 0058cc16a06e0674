package rdma

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

const (
	pieceMost = 1 << 20 // bytes of a read or write with one work request: less is under way when a lease ends
	opPosts   = 24      // work requests that are posted with one doorbell, of connections with leases
	opSignal  = 24      // every so many of an operation one is signaled, less than sqData
	readsMost = 16      // reads and atomics under way, at most
)

// step is one read, write or atomic of an operation.
type step struct {
	op        ibv.Opcode
	buf       *Buffer
	from, to  int // of buf
	off       int64
	add, swap uint64
}

// op is an operation on a region: work requests that complete together. link.mu guards it once it was
// submitted, until it has finished.
type op struct {
	r      *Region
	steps  []step
	at     int // step to be posted next
	offset int // bytes of it that are posted
	under  int // work requests under way
	note   frame
	noting bool // note is to be sent behind the last

	posted    bool // nothing is left to be posted
	finished  bool
	abandoned bool // no goroutine waits: the one that finishes it recycles it
	result    uint64
	err       error
	ch        chan struct{} // with room for the news that it has finished

	freed chan bool // of an invalidation, which has nothing else: gets whether it succeeded
}

// ops are ops for reuse.
var ops = sync.Pool{New: func() any { return &op{ch: make(chan struct{}, 1)} }}

func (o *op) recycle() {
	clear(o.steps)
	*o = op{steps: o.steps[:0], ch: o.ch}
	ops.Put(o)
}

// opQueue is a queue of operations that are not all posted.
type opQueue struct {
	list []*op
	head int
}

func (q *opQueue) len() int   { return len(q.list) - q.head }
func (q *opQueue) first() *op { return q.list[q.head] }

func (q *opQueue) push(o *op) {
	if len(q.list) == cap(q.list) && q.head > 0 {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, o)
}

func (q *opQueue) pop() {
	q.list[q.head] = nil
	if q.head++; q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
}

func (q *opQueue) remove(drop func(*op) bool) {
	q.list = slices.DeleteFunc(q.list[q.head:], drop)
	q.head = 0
}

// submit begins an operation, whose steps have been checked.
func (l *link) submit(o *op) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.leaseError(); err != nil {
		return err
	}
	if o.r.err != nil {
		return o.r.err
	}
	m := l.leasing
	for i := range o.steps {
		st := &o.steps[i]
		if st.op != ibv.OpWrite && m.depth == 0 {
			return &ibv.UnsupportedError{Feature: "reading remote memory", Need: "devices that allow reads and atomics",
				Have: "a connection without"}
		}
		if st.buf == nil && m.results == nil {
			if m.results, _ = l.e.blocks.TryTake(); m.results == nil {
				return ErrNoMemory
			}
		}
	}
	for i := range o.steps {
		if b := o.steps[i].buf; b != nil {
			b.pin()
		}
	}
	o.r.under++
	m.ops.push(o)
	l.pump()
	return nil
}

// await1 waits for an operation, and reports whether it has finished. If it has not, it is abandoned.
func (l *link) await1(ctx context.Context, o *op) (finished bool, err error) {
	if l.e.wait(bound{Ctx: ctx}, o.ch) == nil {
		return true, o.err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.finished {
		<-o.ch
		return true, o.err
	}
	o.abandoned = true
	if !o.posted {
		l.leasing.ops.remove(func(q *op) bool { return q == o })
		l.drop(o, ctx.Err())
	}
	return false, ctx.Err()
}

// stopOps ends what waits for remote memory: nothing more is posted or borrowed.
// Preconditions: l.mu is held, leaseError is not nil.
func (l *link) stopOps() {
	m := l.leasing
	if m == nil {
		return
	}
	if !deadline.IsClosed(m.stopped) {
		close(m.stopped)
	}
	wake(m.borrowWake)
	l.dropOps(nil, l.leaseError())
}

// dropOps posts nothing more for a region, or for any if r is nil.
// Preconditions: l.mu is held.
func (l *link) dropOps(r *Region, err error) {
	m := l.leasing
	var dropped []*op
	m.ops.remove(func(o *op) bool {
		if r != nil && o.r != r {
			return false
		}
		dropped = append(dropped, o)
		return true
	})
	for _, o := range dropped {
		l.drop(o, err)
	}
}

// drop finishes an operation whose rest is not posted.
// Preconditions: l.mu is held, o is not in the queue.
func (l *link) drop(o *op, err error) {
	o.posted, o.err = true, err
	if o.noting {
		l.e.put(o.note.b)
		o.noting = false
	}
	switch {
	case o.under == 0:
		l.finishIdle(o)
	case !l.ending:
		l.ping = true // its completion confirms all before it
		l.pump()
	}
}

// finishIdle finishes an operation that has nothing under way.
// Preconditions: l.mu is held.
func (l *link) finishIdle(o *op) {
	o.finished = true
	for i := range o.steps {
		if b := o.steps[i].buf; b != nil {
			b.unpin()
		}
	}
	r := o.r
	if o.abandoned {
		o.recycle()
	} else {
		o.ch <- struct{}{}
	}
	r.left()
}

// opReady reports whether a work request of an operation may be posted.
// Preconditions: l.mu is held.
func (l *link) opReady() bool {
	m := l.leasing
	if m == nil || m.ops.len() == 0 || l.posted-l.doneWR >= sqData {
		return false
	}
	o := m.ops.first()
	return o.steps[o.at].op == ibv.OpWrite || m.reads < m.depth
}

// nextOp prepares work request n of a doorbell: the next one of the first operation.
// Preconditions: l.mu is held, opReady.
func (l *link) nextOp(n int) {
	m := l.leasing
	m.opTurn = false
	o := m.ops.first()
	st := &o.steps[o.at]
	at := l.posted % sqDepth
	l.slots[at] = slot{op: o, read: st.op != ibv.OpWrite}
	size := min(st.to-st.from-o.offset, pieceMost)
	if st.buf != nil {
		l.post.sges[2*n] = st.buf.sge(st.from+o.offset, size)
	} else {
		l.post.sges[2*n] = ibv.SGE{Addr: m.results.HeaderAddr() + wire.HeaderLen + uint64(8*at), Length: 8,
			LKey: m.results.LKey}
	}
	l.post.wrs[n] = ibv.SendWR{ID: uint64(l.posted), Opcode: st.op, SGEs: l.post.sges[2*n : 2*n+1 : 2*n+1],
		Remote:     ibv.RemoteAddr{Addr: o.r.addr + uint64(st.off) + uint64(o.offset), RKey: o.r.rkey},
		CompareAdd: st.add, Swap: st.swap}
	o.under++
	o.offset += size
	full := false
	if st.op != ibv.OpWrite {
		m.reads++
		full = m.reads == m.depth
	}
	if o.offset == st.to-st.from {
		o.at, o.offset = o.at+1, 0
	}
	if o.at == len(o.steps) {
		o.posted, full = true, true
		m.ops.pop()
		if o.noting {
			o.noting = false
			l.note(o.note)
		}
	}
	l.posted++
	if full || l.posted-l.signaled >= opSignal {
		l.post.wrs[n].Flags = ibv.Signaled
		l.signaled = l.posted
	}
}

// note sends a message of one frame as soon as no other message is being staged.
// Preconditions: l.mu is held.
func (l *link) note(f frame) {
	m := l.leasing
	if l.writeError() != nil {
		l.e.put(f.b)
		return
	}
	if l.staging {
		m.notes = append(m.notes, f)
		return
	}
	l.out.push(f)
}

// staged is called when a data frame was staged: after the last one of a message the notes follow.
// Preconditions: l.mu is held.
func (l *link) staged(f frame) {
	l.staging = f.flags&wire.FlagMore != 0
	if m := l.leasing; m != nil && !l.staging && len(m.notes) > 0 {
		for _, f := range m.notes {
			l.out.push(f)
		}
		m.notes = m.notes[:0]
	}
}

// opDone counts a work request of an operation as completed.
// Preconditions: l.mu is held.
func (l *link) opDone(s *slot, failed bool) {
	m, o := l.leasing, s.op
	if o.freed != nil {
		o.freed <- !failed
		return
	}
	if s.read {
		m.reads--
	}
	if failed {
		o.err = l.reason()
	} else if o.steps[0].buf == nil {
		o.result = binary.NativeEndian.Uint64(m.results.Payload()[8*(l.doneWR%sqDepth):])
	}
	if o.under--; o.under == 0 && o.posted {
		m.finished = append(m.finished, o)
	}
}

// finishOps finishes the operations that opDone has found to have completed.
// Preconditions: l.mu is held.
func (l *link) finishOps() {
	if l.leasing == nil {
		return
	}
	m := l.leasing
	for len(m.finished) > 0 {
		o := m.finished[len(m.finished)-1]
		m.finished = m.finished[:len(m.finished)-1]
		l.finishIdle(o)
	}
}

// loseOps finishes the operations that are under way on a QP that could not be closed. Their buffers
// are kept: the device may still use them.
// Preconditions: l.mu is held, l.ending.
func (l *link) loseOps() {
	for ; wire.Before(l.doneWR, l.posted); l.doneWR++ {
		if s := &l.slots[l.doneWR%sqDepth]; s.op != nil {
			for i := range s.op.steps {
				s.op.steps[i].buf = nil
			}
			l.opDone(&slot{op: s.op, read: s.read}, true)
		}
	}
	l.finishOps()
}

// opFirst reports whether an operation goes before a data frame: they take turns.
// Preconditions: l.mu is held.
func (l *link) opFirst() bool { return l.leasing != nil && l.leasing.opTurn && l.opReady() }

// dataPosted makes it an operation's turn.
// Preconditions: l.mu is held.
func (l *link) dataPosted() {
	if l.leasing != nil {
		l.leasing.opTurn = true
	}
}

// dropNotes drops notes that wait for a message to be staged.
// Preconditions: l.mu is held.
func (l *link) dropNotes() {
	if m := l.leasing; m != nil {
		for _, f := range m.notes {
			l.e.put(f.b)
		}
		m.notes = nil
	}
}
