package link

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// receiving has the receives of a shard. They are those of an SRQ, which all connections share. On a device without one
// they are those of each connection's own queue. Then its window bounds its blocks, and what it has been given it keeps
// until a frame has come there, since a queue gives no receive back.
type receiving struct {
	queue  *nic.Receives    // the SRQ; nil: each connection has its own queue, or the shard is parked; under cqMu
	depth  int              // of the SRQ, or of each queue
	Shared *blocks.Receiver // nil: each connection has its own queue

	wrs  [blocks.PostMost]ibv.RecvWR // under the lock of the blocks, as the next
	sges [blocks.PostMost]ibv.SGE
}

// OwnQueues has the engines of tests do without an SRQ.
var OwnQueues bool

// mayShare reports whether connections may share receives. Where a frame that finds none ends the connection, each has
// its own: a peer that takes more than it was promised then harms nobody else.
func mayShare(t ibv.TransportType) bool { return t.RNR() && !OwnQueues }

// surplus is how many receives a queue of a connection's own has for frames without credits.
func (e *Shard) surplus() int {
	if e.Family().RNR() {
		return OwnBlocks
	}
	return strictBlocks
}

// leastRecvs is the least depth of a connection's own receive queue.
func (e *Shard) leastRecvs() int { return e.surplus() + StartWindow + wire.ControlWindow }

// HasSRQ reports whether the connections of a device can share receives.
func HasSRQ(attr *ibv.DeviceAttr) bool { return attr.MaxSRQ > 0 && attr.MaxSRQWR >= leastSRQ }

// leastSRQ is how many receives are worth sharing.
const leastSRQ = 4 * ControlBlocks

// sizeReceives decides how many receives there are. The windows of connections with queues of their own fit into these.
func (e *Shard) sizeReceives() {
	attr := e.Engine.Attr
	if HasSRQ(attr) {
		e.Receives.depth = min(attr.MaxSRQWR, int(e.Options.Memory/int64(e.Stride)), max(attr.MaxCQE/2, leastSRQ))
		e.Options.MaxConns = min(e.Options.MaxConns, (attr.MaxCQE-e.Receives.depth)/sendq.Depth)
		return
	}
	e.Receives.depth = math.MaxInt
	e.Receives.fit(e, min(int(e.Most.Window)+e.leastRecvs()-StartWindow, attr.MaxQPWR, attr.MaxCQE-sendq.Depth))
	e.Options.MaxConns = min(e.Options.MaxConns, attr.MaxCQE/(sendq.Depth+e.Receives.depth))
}

// fit makes the windows of connections with receive queues of their own fit to queues of this depth.
func (r *receiving) fit(e *Shard, depth int) {
	r.depth = min(r.depth, depth)
	e.Most.Window = uint32(max(min(int(e.Most.Window), r.depth-(e.leastRecvs()-StartWindow)), StartWindow))
	e.setMost(e.Most)
}

// completions is how many completions of so many connections the CQ has room for.
func (e *Shard) completions(conns int) int {
	if HasSRQ(e.Engine.Attr) {
		return e.Receives.depth + conns*sendq.Depth
	}
	return conns * (sendq.Depth + e.Receives.depth)
}

// openReceives makes the SRQ, if there is one, and registers the first blocks.
func (e *Shard) openReceives() error {
	if _, err := e.Blocks.Reserve(1); err != nil || !HasSRQ(e.Engine.Attr) {
		return err
	}
	e.Receives.Shared = e.Blocks.Shared(e.Receives.depth, e.slack())
	return e.resume()
}

// slack is how many receives the SRQ has for frames that no promise covers. Of few blocks most are for promises.
func (e *Shard) slack() int {
	slabs := int(e.Options.Memory / int64(e.Options.Pollers) / e.slabBytes)
	return max(min(e.Most.Control, blocks.ForReceives(slabs*e.Blocks.PerSlab)/4), 1)
}

// keep is how many slabs an idle shard keeps: those that it needs to begin. The blocks of streams come with streams.
func (e *Shard) keep() int {
	if e.base != nil {
		return 0
	}
	return slabs(e.Options.Block, e.slack()+StartWindow)
}

// resume makes the SRQ of a shard that has none, and posts the first receives.
func (e *Shard) resume() error {
	if e.Receives.Shared == nil || e.Receives.queue != nil {
		return nil
	}
	q, err := e.CQ.OpenReceives(e.Receives.depth)
	if err != nil {
		return err
	}
	if srq := q.Device(); srq != nil {
		e.Engine.own.Store(srq, true)
	}
	e.Receives.queue = q
	e.Blocks.Resume(e.Receives.poster(q.PostRecv))
	return nil
}

// park closes the SRQ of a shard without connections: receives that it has keep blocks, and so memory.
// Preconditions: cqMu is held, no place is reserved.
func (e *Shard) park() {
	q := e.Receives.queue
	if q == nil || q.Device() == nil {
		return
	}
	if e.Blocks.Withdraw(e.keep(), q.Close) { // one whose queue pair could not be closed stays
		e.Engine.own.Delete(q.Device())
		e.Receives.queue = nil
	}
}

// trim frees memory that the shard does not need, and reports whether there was some. Without wait the caller may have
// locks.
func (e *Shard) trim(wait bool) bool {
	mu := &e.cqMu
	if e.base != nil {
		mu = &e.base.cqMu // under which a place is reserved
	}
	if tryLock(mu, wait) {
		defer mu.Unlock() // a caller that waits for it finds the memory freed
		if e.Members.Places.Load() == 0 && !e.Members.closed.Load() {
			e.park()
		}
	}
	if !e.Blocks.Trim(e.keep(), wait) {
		return false
	}
	e.Engine.Pool.Wake()
	return true
}

// tryLock locks mu, and reports whether it has. It waits only if it may.
func tryLock(mu *sync.Mutex, wait bool) bool {
	if wait {
		mu.Lock()
	}
	return wait || mu.TryLock()
}

// Options has a QP receive from where the shard's connections do.
func (r *receiving) Options(o *ibv.QPOptions) {
	if r.queue != nil {
		o.SRQ = r.queue.Device()
	} else {
		o.MaxRecvWR, o.MaxRecvSGE = r.depth, 1
	}
}

// begin gives a connection its receives. It has none of its own before promise.
func (r *receiving) begin(l *Link) {
	if r.Shared != nil {
		l.Window.account.Begin(r.Shared, l.Window.Kind)
		return
	}
	depth := min(r.depth, l.Port.Cap().MaxRecvWR)
	l.Window.account.BeginOwn(l.Shard.Blocks, depth, l.Shard.surplus(), r.poster(l.Port.PostRecv))
}

// promise gives a connection the blocks that it begins with, if it has none.
func (r *receiving) promise(l *Link) error {
	if l.Window.account.Promised() {
		return nil
	}
	err := l.Window.account.Promise(BaseBlocks(l.Control != nil))
	if r.Shared != nil && l.Control != nil && err != nil { // frames about leases hold no block: the slack has to do
		err = l.Window.account.Promise(StartWindow)
	}
	if err == nil {
		err = l.Shard.Blocks.Equip(&l.Writer.sender)
	}
	return l.Shard.noReceives(err)
}

// Admit returns what another connection has for what it receives. Others may take it first. If there is nothing,
// windows shrink.
func (r *receiving) Admit(e *Shard, leases bool) (blocks.Kind, error) {
	if r.Shared == nil {
		if e.Blocks.Promisable(BaseBlocks(leases) + e.surplus()) {
			return blocks.None, nil
		}
	} else if kind := e.Blocks.Admit(StartWindow); kind != blocks.None {
		if kind == blocks.Compact {
			e.noteCompact()
		}
		return kind, nil
	}
	return blocks.None, e.noReceives(blocks.ErrFull)
}

// noteCompact logs that connections are compact, at most once a minute.
func (e *Shard) noteCompact() {
	if n := e.Engine.crowded.Due(time.Now()); n > 0 {
		Warn(e.Options.Logger, "rdma: much of the engine's memory is promised, so new connections get short frames; "+
			"raise EngineOptions.Memory; the next line about it comes in a minute or later",
			"device", e.Engine.Name(), "connections", n, "frame", CompactFrame, "memory", e.Engine.Options.Memory)
	}
}

// noReceives explains why a connection does not have its blocks.
func (e *Shard) noReceives(err error) error {
	if err != blocks.ErrFull {
		return err
	}
	e.crowd.Full.Store(true)
	first, promised, stalled := StartWindow, 0, 0
	if e.Receives.Shared == nil {
		first += e.surplus()
	}
	for _, s := range e.Engine.Shards {
		promised += s.Blocks.Counts().Promised * s.Stride
		stalled += s.Stalled()
	}
	return fmt.Errorf("%w for another connection: %w", pool.ErrNoMemory, &ibv.LimitError{
		What: "bytes of blocks promised to the peers of connections", Asked: uint64(promised + first*e.Stride),
		Limit: uint64(e.Engine.Budget.Receivable()), Where: fmt.Sprintf("three quarters of what buffers leave of "+
			"EngineOptions.Memory, %d; peers of %d connections do not read", e.Engine.Options.Memory, stalled)})
}

// marks is how many completions follow those of all other work requests of a QP in ERR: see ibv.QP.Mark.
func (r *receiving) marks() int {
	if r.Shared != nil {
		return 1
	}
	return 2
}

// poster returns what posts blocks to a queue. If the device is gone, the poller is notified.
func (r *receiving) poster(post func([]ibv.RecvWR) (int, error)) blocks.Post {
	return func(list []*Block) int {
		for i, b := range list {
			r.sges[i] = ibv.SGE{Addr: b.HeaderAddr(), Length: b.FrameLen(), LKey: b.LKey}
			r.wrs[i] = ibv.RecvWR{ID: b.ID(), SGEs: r.sges[i : i+1 : i+1]}
		}
		n, _ := post(r.wrs[:len(list)])
		return n
	}
}

// RecvMost is how many blocks may be posted or held.
func (e *Shard) RecvMost() int {
	if e.Receives.Shared == nil {
		return e.Blocks.Receivable()
	}
	return min(e.Blocks.Receivable(), e.Receives.depth)
}
