package rdma

import (
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// receiving has the receives of a shard. They are those of an SRQ, which all connections share. On a device without one
// they are those of each connection's own queue. Then its window bounds its blocks, and what it has been given it keeps
// until a frame has come there, since a queue gives no receive back.
type receiving struct {
	srq    *ibv.SRQ         // nil: each connection has its own queue, or it is one in memory
	depth  int              // of the SRQ, or of each queue
	shared *blocks.Receiver // nil: the same

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

// hasSRQ reports whether the connections of a device can share receives.
func hasSRQ(attr *ibv.DeviceAttr) bool { return attr.MaxSRQ > 0 && attr.MaxSRQWR > 0 }

// sizeReceives decides how many receives there are. The windows of connections with queues of their own fit into these.
func (e *shard) sizeReceives() {
	attr := e.eng.attr
	if hasSRQ(attr) {
		e.recvs.depth = min(attr.MaxSRQWR, int(e.opt.Memory/int64(e.stride)), attr.MaxCQE/2)
		e.opt.MaxConns = min(e.opt.MaxConns, (attr.MaxCQE-e.recvs.depth)/sendq.Depth)
		return
	}
	others := e.surplus() + wire.ControlWindow
	e.recvs.depth = min(int(e.most.window)+others, attr.MaxQPWR)
	e.most.window = uint32(max(e.recvs.depth-others, startWindow))
	e.setMost(e.most)
	e.opt.MaxConns = min(e.opt.MaxConns, attr.MaxCQE/(sendq.Depth+e.recvs.depth))
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
	if _, err := e.blocks.Reserve(1); err != nil {
		return err
	}
	if !hasSRQ(e.eng.attr) {
		return nil
	}
	if e.mem != nil {
		e.recvs.shared = e.blocks.Shared(e.recvs.depth, e.most.control, func(list []*block) int {
			n, _ := e.mem.rq.PostRecv(e.recvs.requests(list)) // it takes all
			return n
		})
		return nil
	}
	path, _ := e.cq.DataPath()
	srq, err := e.eng.pd.CreateSRQ(&ibv.SRQOptions{MaxWR: e.recvs.depth, DataPath: path})
	if err != nil {
		return err
	}
	e.recvs.srq = srq
	e.eng.own.Store(srq, true)
	e.recvs.shared = e.blocks.Shared(e.recvs.depth, e.most.control, func(list []*block) int {
		n, _ := srq.PostRecv(e.recvs.requests(list)) // if the device is gone, the poller is notified
		return n
	})
	return nil
}

// options has a QP receive from where the shard's connections do.
func (r *receiving) options(o *ibv.QPOptions) {
	if o.SRQ = r.srq; r.srq == nil {
		o.MaxRecvWR, o.MaxRecvSGE = r.depth, 1
	}
}

// begin gives a connection its receives. It has none of its own before promise.
func (r *receiving) begin(l *link) {
	if r.shared != nil {
		l.account.Begin(r.shared, 0)
		return
	}
	l.account.BeginOwn(l.e.blocks, r.depth, l.e.surplus(), func(list []*block) int {
		n, _ := l.port.postRecv(r.requests(list))
		return n
	})
}

// promise posts the receives that a connection begins with, if it has none.
func (r *receiving) promise(l *link) error {
	n := baseBlocks(l.leasing != nil)
	if l.receives || l.account.Promise(n) {
		l.receives = true
		return nil
	}
	return noReceives(l.e, n)
}

// check reports whether another connection probably has its receives.
func (r *receiving) check(e *shard, n int) error {
	if r.shared != nil || e.blocks.Promisable() >= n+e.surplus() {
		return nil
	}
	return noReceives(e, n)
}

func noReceives(e *shard, n int) error {
	return fmt.Errorf("%w: %w", ErrNoMemory, &ibv.LimitError{
		What:  "bytes of receives for another connection, which are its own on this device",
		Asked: uint64((n + e.surplus()) * e.stride), Limit: uint64(e.eng.opt.Memory),
		Where: "EngineOptions.Memory: connections keep what their windows have grown to"})
}

// receiveFailed ends the connection: a receive has failed. A flush of the connection's own queue has a reason, which
// the device or the connection manager is about to report.
// Preconditions: l.mu is held.
func (l *link) receiveFailed(wc *ibv.WC) {
	err := completionError(wc)
	if wc.Status != ibv.WCWRFlushErr || l.e.recvs.shared != nil {
		l.failLocked(err)
	} else if l.account.Stop() {
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
