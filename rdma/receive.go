package rdma

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// receiving has the receives of a shard. They are those of an SRQ, which all connections share. On a device without one
// they are those of each connection's own queue. Then its window bounds its blocks, and what it has been given it keeps
// until a frame has come there, since a queue gives no receive back.
type receiving struct {
	queue  nic.Receives     // the SRQ; nil: each connection has its own queue, or the shard is parked; under cqMu
	depth  int              // of the SRQ, or of each queue
	shared *blocks.Receiver // nil: each connection has its own queue

	wrs  [blocks.PostMost]ibv.RecvWR // under the lock of the blocks, as the next
	sges [blocks.PostMost]ibv.SGE
}

// ownQueues has the engines of tests do without an SRQ.
var ownQueues bool

// mayShare reports whether connections may share receives. Where a frame that finds none ends the connection, each has
// its own: a peer that takes more than it was promised then harms nobody else.
func mayShare(t ibv.TransportType) bool { return t.RNR() && !ownQueues }

// surplus is how many receives a queue of a connection's own has for frames without credits.
func (e *shard) surplus() int {
	if e.family().RNR() {
		return ownBlocks
	}
	return strictBlocks
}

// leastRecvs is the least depth of a connection's own receive queue.
func (e *shard) leastRecvs() int { return e.surplus() + startWindow + wire.ControlWindow }

// hasSRQ reports whether the connections of a device can share receives.
func hasSRQ(attr *ibv.DeviceAttr) bool { return attr.MaxSRQ > 0 && attr.MaxSRQWR >= leastSRQ }

// leastSRQ is how many receives are worth sharing.
const leastSRQ = 4 * controlBlocks

// sizeReceives decides how many receives there are. The windows of connections with queues of their own fit into these.
func (e *shard) sizeReceives() {
	attr := e.eng.attr
	if hasSRQ(attr) {
		e.recvs.depth = min(attr.MaxSRQWR, int(e.opt.Memory/int64(e.stride)), max(attr.MaxCQE/2, leastSRQ))
		e.opt.MaxConns = min(e.opt.MaxConns, (attr.MaxCQE-e.recvs.depth)/sendq.Depth)
		return
	}
	e.recvs.depth = math.MaxInt
	e.recvs.fit(e, min(int(e.most.window)+e.leastRecvs()-startWindow, attr.MaxQPWR, attr.MaxCQE-sendq.Depth))
	e.opt.MaxConns = min(e.opt.MaxConns, attr.MaxCQE/(sendq.Depth+e.recvs.depth))
}

// fit makes the windows of connections with receive queues of their own fit to queues of this depth.
func (r *receiving) fit(e *shard, depth int) {
	r.depth = min(r.depth, depth)
	e.most.window = uint32(max(min(int(e.most.window), r.depth-(e.leastRecvs()-startWindow)), startWindow))
	e.setMost(e.most)
}

// completions is how many completions of so many connections the CQ has room for.
func (e *shard) completions(conns int) int {
	if hasSRQ(e.eng.attr) {
		return e.recvs.depth + conns*sendq.Depth
	}
	return conns * (sendq.Depth + e.recvs.depth)
}

// openReceives makes the SRQ, if there is one, and registers the first blocks.
func (e *shard) openReceives() error {
	if _, err := e.blocks.Reserve(1); err != nil || !hasSRQ(e.eng.attr) {
		return err
	}
	e.recvs.shared = e.blocks.Shared(e.recvs.depth, e.slack())
	return e.resume()
}

// slack is how many receives the SRQ has for frames that no promise covers. Of few blocks most are for promises.
func (e *shard) slack() int {
	slabs := int(e.opt.Memory / int64(e.opt.Pollers) / e.slabBytes)
	return max(min(e.most.control, blocks.ForReceives(slabs*e.blocks.PerSlab())/4), 1)
}

// keep is how many slabs an idle shard keeps: those that it needs to begin. The blocks of streams come with streams.
func (e *shard) keep() int {
	if e.base != nil {
		return 0
	}
	return e.opt.slabs(e.slack() + startWindow)
}

// resume makes the SRQ of a shard that has none, and posts the first receives.
func (e *shard) resume() error {
	if e.recvs.shared == nil || e.recvs.queue != nil {
		return nil
	}
	q, err := e.cq.OpenReceives(e.recvs.depth, e.recvs.requests)
	if err != nil {
		return err
	}
	if srq := q.Device(); srq != nil {
		e.eng.own.Store(srq, true)
	}
	e.recvs.queue = q
	e.blocks.Resume(q.Post)
	return nil
}

// park closes the SRQ of a shard without connections: receives that it has keep blocks, and so memory.
// Preconditions: cqMu is held, no place is reserved.
func (e *shard) park() {
	q := e.recvs.queue
	if q == nil || q.Device() == nil {
		return
	}
	if e.blocks.Withdraw(e.keep(), q.Close) { // one whose queue pair could not be closed stays
		e.eng.own.Delete(q.Device())
		e.recvs.queue = nil
	}
}

// trim frees memory that the shard does not need, and reports whether there was some. Without wait the caller may have
// locks.
func (e *shard) trim(wait bool) bool {
	mu := &e.cqMu
	if e.base != nil {
		mu = &e.base.cqMu // under which a place is reserved
	}
	if tryLock(mu, wait) {
		defer mu.Unlock() // a caller that waits for it finds the memory freed
		if e.members.places() == 0 && !e.members.isClosed() {
			e.park()
		}
	}
	if !e.blocks.Trim(e.keep(), wait) {
		return false
	}
	e.eng.pool.Wake()
	return true
}

// tryLock locks mu, and reports whether it has. It waits only if it may.
func tryLock(mu *sync.Mutex, wait bool) bool {
	if wait {
		mu.Lock()
	}
	return wait || mu.TryLock()
}

// options has a QP receive from where the shard's connections do.
func (r *receiving) options(o *ibv.QPOptions) {
	if r.queue != nil {
		o.SRQ = r.queue.Device()
	} else {
		o.MaxRecvWR, o.MaxRecvSGE = r.depth, 1
	}
}

// begin gives a connection its receives. It has none of its own before promise.
func (r *receiving) begin(l *link) {
	if r.shared != nil {
		l.win.account.Begin(r.shared, l.win.kind)
		return
	}
	depth := min(r.depth, l.port.Cap().MaxRecvWR)
	l.win.account.BeginOwn(l.e.blocks, depth, l.e.surplus(), func(list []*block) int {
		n, _ := l.port.PostRecv(r.requests(list))
		return n
	})
}

// promise gives a connection the blocks that it begins with, if it has none.
func (r *receiving) promise(l *link) error {
	if l.win.account.Promised() {
		return nil
	}
	err := l.win.account.Promise(baseBlocks(l.ctl != nil))
	if r.shared != nil && l.ctl != nil && err != nil { // frames about leases hold no block: the slack has to do
		err = l.win.account.Promise(startWindow)
	}
	if err == nil {
		err = l.e.blocks.Equip(&l.wr.sender)
	}
	return l.e.noReceives(err)
}

// admit returns what another connection has for what it receives. Others may take it first. If there is nothing,
// windows shrink.
func (r *receiving) admit(e *shard, leases bool) (blocks.Kind, error) {
	if r.shared == nil {
		if e.blocks.Promisable(baseBlocks(leases) + e.surplus()) {
			return blocks.None, nil
		}
	} else if kind := e.blocks.Admit(startWindow); kind != blocks.None {
		if kind == blocks.Compact {
			e.noteCompact()
		}
		return kind, nil
	}
	return blocks.None, e.noReceives(blocks.ErrFull)
}

// noteCompact logs that connections are compact, at most once a minute.
func (e *shard) noteCompact() {
	if n := e.eng.crowded.due(time.Now()); n > 0 {
		warn(e.opt.Logger, "rdma: much of the engine's memory is promised, so new connections get short frames; "+
			"raise EngineOptions.Memory; the next line about it comes in a minute or later",
			"device", e.eng.name(), "connections", n, "frame", compactFrame, "memory", e.eng.opt.Memory)
	}
}

// noReceives explains why a connection does not have its blocks.
func (e *shard) noReceives(err error) error {
	if err != blocks.ErrFull {
		return err
	}
	e.crowd.Full.Store(true)
	first, promised, stalled := startWindow, 0, 0
	if e.recvs.shared == nil {
		first += e.surplus()
	}
	for _, s := range e.eng.shards {
		promised += s.blocks.Counts().Promised * s.stride
		stalled += s.stalled()
	}
	return fmt.Errorf("%w for another connection: %w", ErrNoMemory, &ibv.LimitError{
		What: "bytes of blocks promised to the peers of connections", Asked: uint64(promised + first*e.stride),
		Limit: uint64(e.eng.budget.Receivable()), Where: fmt.Sprintf("three quarters of what buffers leave of "+
			"EngineOptions.Memory, %d; peers of %d connections do not read", e.eng.opt.Memory, stalled)})
}

// receiveFailed ends the connection: a receive has failed. A flush of the connection's own queue has a reason, which
// the device or the connection manager is about to report.
// Preconditions: l.mu is held.
func (l *link) receiveFailed(wc *ibv.WC) {
	err := completionError(wc)
	if wc.Status != ibv.WCWRFlushErr || l.e.recvs.shared != nil {
		l.failLocked(err)
	} else if l.win.account.Stop() {
		time.AfterFunc(drainTime/4, func() { l.fail(err) })
	}
}

// marks is how many completions follow those of all other work requests of a QP in ERR: see ibv.QP.Mark.
func (r *receiving) marks() int {
	if r.shared != nil {
		return 1
	}
	return 2
}

// requests returns work requests for blocks, which are valid until the next call.
func (r *receiving) requests(list []*block) []ibv.RecvWR {
	for i, b := range list {
		r.sges[i] = sgeOf(b)
		r.wrs[i] = ibv.RecvWR{ID: b.ID(), SGEs: r.sges[i : i+1 : i+1]}
	}
	return r.wrs[:len(list)]
}
