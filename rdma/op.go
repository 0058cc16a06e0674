package rdma

import (
	"context"
	"fmt"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// step is one read, write or atomic of an operation.
type step struct {
	op        ibv.Opcode
	buf       *pool.Buf
	gen       uint64 // of its use
	from, to  int    // of buf
	off       int64
	add, swap uint64
	sink      nic.Memory // of a read: the MR of its own, or nil for that of buf
}

// stepOf is a read or write.
func stepOf(op ibv.Opcode, b *Buffer, from, to int, off int64) step {
	st := step{op: op, buf: b.get(), from: from, to: to, off: off}
	if b != nil {
		st.gen = b.h.Gen()
	}
	return st
}

// work is an operation as the send queue has it.
type work = sendq.Operation[link.Held, link.Owner]

// op is an operation on a region: work requests that complete together. link.Mu guards it once it was submitted, until
// it has finished.
type op struct {
	work
	r     *Region
	steps []step
	sinks int // of steps

	finished  bool
	abandoned bool // no goroutine waits: the one that finishes it recycles it
	err       error
	ch        chan struct{} // with room for the news that it has finished

	freed chan bool // of an invalidation, which has nothing else: gets whether it succeeded
}

// ops are ops for reuse.
var ops = sync.Pool{New: func() any { return &op{ch: make(chan struct{}, 1)} }}

func (o *op) recycle() {
	o.work.Reset()
	clear(o.steps)
	*o = op{work: o.work, steps: o.steps[:0], ch: o.ch}
	ops.Put(o)
}

// errReleased is the error of a step whose buffer was released.
func errReleased(i int) error {
	return &ibv.ArgError{Arg: "buffer", Got: fmt.Sprintf("one that was released, in descriptor %d", i),
		Want: "one that is released after Start"}
}

// submit begins an operation, whose steps have been checked.
func (m *leasing) submit(o *op) error {
	err := m.makeSinks(o)
	if err == nil {
		err = m.submitted(o)
	}
	if err != nil {
		o.closeSinks(m.l.Shard.Engine.Pool)
	}
	return err
}

func (m *leasing) submitted(o *op) error {
	l := m.l
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err := l.LeaseError(); err != nil {
		return err
	}
	if err := o.r.use.Cause; err != nil {
		return err
	}
	for i := range o.steps {
		st := &o.steps[i]
		if st.buf != nil && st.buf.Gen() != st.gen {
			return errReleased(i)
		}
		if st.op != ibv.OpWrite && m.depth == 0 {
			return &ibv.UnsupportedError{Feature: "reading remote memory", Need: "devices that allow reads and atomics",
				Have: "a connection without"}
		}
		if st.buf == nil { // an atomic
			if err := m.mayAtomic(); err != nil {
				return err
			}
		}
	}
	o.Owner = o
	for i := range o.steps {
		st := &o.steps[i]
		w := sendq.Step{Opcode: st.op, Len: st.to - st.from, Add: st.add, Swap: st.swap,
			Remote: ibv.RemoteAddr{Addr: o.r.addr + uint64(st.off), RKey: o.r.rkey}}
		if b := st.buf; b != nil {
			b.Pin()
			sge := b.SGE(st.from, 0)
			if w.Addr, w.LKey = sge.Addr, sge.LKey; st.sink != nil {
				w.Addr, w.LKey = st.sink.Addr(), st.sink.LKey()
			}
		}
		o.Steps = append(o.Steps, w)
	}
	o.r.use.Begin()
	l.Queue.Submit(sendq.Op, &o.work)
	l.Pump()
	return nil
}

// mayAtomic reports why no atomic can be posted, and has memory for what it returns.
// Preconditions: l.Mu is held.
func (m *leasing) mayAtomic() error {
	l := m.l
	if l.Shard.Engine.Attr.AtomicCap == ibv.AtomicNone {
		return &ibv.UnsupportedError{Feature: "an atomic on remote memory", Need: "a device with atomics",
			Have: l.Shard.Engine.Name() + " without them"}
	}
	return l.Writer.NeedScratch()
}

// await1 waits for an operation, and reports whether it has finished. If it has not, it is abandoned.
func (m *leasing) await1(ctx context.Context, o *op) (finished bool, err error) {
	l := m.l
	ended := l.Shard.Progress.Wait(turn.Bound{Ctx: ctx}, o.ch)
	if ended == nil {
		return true, o.err
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if o.finished {
		<-o.ch
		return true, o.err
	}
	o.abandoned = true
	for range l.Queue.Remove(func(w *work) bool { return w == &o.work }) {
		m.drop(o, ended)
	}
	return false, ended
}

// Stop ends what waits for remote memory: nothing more is posted or borrowed.
// Preconditions: l.Mu is held, leaseError is not nil.
func (m *leasing) Stop() {
	progress.Token(m.borrows.wake)
	m.dropOps(nil, m.l.LeaseError())
}

// dropOps posts nothing more for a region, or for any if r is nil.
// Preconditions: l.Mu is held.
func (m *leasing) dropOps(r *Region, err error) {
	for _, w := range m.l.Queue.Remove(func(w *work) bool { return r == nil || w.Owner.(*op).r == r }) {
		m.drop(w.Owner.(*op), err)
	}
}

// Completed implements owner.
func (o *op) Completed(failed bool) {
	if o.freed != nil {
		o.freed <- !failed
		return
	}
	l := o.r.l
	if failed {
		o.err = l.Reason()
	}
	leasingOf(l).finishIdle(o)
}

// drop finishes an operation whose rest is not posted.
// Preconditions: l.Mu is held, o is not in the queue.
func (m *leasing) drop(o *op, err error) {
	l := m.l
	o.err = err
	if o.Noting {
		l.GiveUp(o.Note.Held)
	}
	if l.Queue.Drop(&o.work) {
		m.finishIdle(o)
		return
	}
	l.Pump() // something asks for its completion
}

// finishIdle finishes an operation that has nothing under way. If the QP could not be closed, its buffers are kept: the
// device may still use them.
// Preconditions: l.Mu is held.
func (m *leasing) finishIdle(o *op) {
	l := m.l
	if o.sinks > 0 { // the peer must not write there any more
		p := l.Shard.Engine.Pool
		p.Closing.Go(func() {
			o.closeSinks(p)
			l.Mu.Lock()
			m.finishIdle(o)
			l.Mu.Unlock()
		})
		return
	}
	o.finished = true
	for i := range o.steps {
		if b := o.steps[i].buf; b != nil && l.End.CloseErr == nil {
			b.Unpin()
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

// makeSinks registers the memory that an operation reads into, if the peer's adapter needs access to it: for this
// operation alone, since the peer's program may write there meanwhile.
func (m *leasing) makeSinks(o *op) error {
	access := m.l.Shard.Family().ReadSink()
	if access == ibv.LocalWrite {
		return nil
	}
	for i := range o.steps {
		st := &o.steps[i]
		if st.op != ibv.OpRead {
			continue
		}
		if st.buf.Gen() != st.gen {
			return errReleased(i)
		}
		mr, err := m.l.Shard.Engine.NIC.Register(st.buf.Bytes()[st.from:st.to], access)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoMemory, err)
		}
		st.sink = mr
		o.sinks++
	}
	return nil
}

// closeSinks undoes makeSinks.
func (o *op) closeSinks(p *pool.Pool) {
	for i := range o.steps {
		if st := &o.steps[i]; st.sink != nil {
			p.Drop(st.sink, 0)
			st.sink = nil
		}
	}
	o.sinks = 0
}
