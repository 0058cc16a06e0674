package nic

import (
	"cmp"
	"context"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// PipeName is the carrier of pipes.
const PipeName = "a pipe in memory"

// memory is an adapter in memory.
type memory struct{ *inmem.Adapter }

// InMemory returns an adapter in memory.
func InMemory(a *inmem.Adapter) Adapter { return memory{a} }

func (m memory) Alloc(n int, access ibv.AccessFlags, _ *ibv.MemOptions) (Memory, error) {
	return m.Adapter.Register(make([]byte, n), access), nil
}

func (m memory) Register(p []byte, access ibv.AccessFlags) (Memory, error) {
	return m.Adapter.Register(p, access), nil
}

func (m memory) Again(p []byte, _, _ uint64, access ibv.AccessFlags) (Memory, error) {
	return m.Register(p, access)
}

// memoryCQ is a CQ in memory. It is never full.
type memoryCQ struct {
	polled
	of *inmem.Adapter
	*inmem.CQ
}

func (m memory) NewCQ(handle func([]ibv.WC)) CQ {
	return &memoryCQ{polled{handle: handle}, m.Adapter, m.Adapter.NewCQ()}
}

func (c *memoryCQ) Poll() (int, error) {
	n, err := c.CQ.Poll(c.wcs[:])
	if n > 0 {
		c.handle(c.wcs[:n])
	}
	return n, err
}

func (*memoryCQ) Open(int, CQOptions) error { return nil }
func (*memoryCQ) Resize(int) error          { return nil }
func (*memoryCQ) Close() error              { return nil }
func (*memoryCQ) Device() *ibv.CQ           { return nil }
func (*memoryCQ) Carrier() string           { return PipeName }
func (c *memoryCQ) Depth() int              { return c.Len() }

// WaitEvent reads the events, as nobody else does.
func (c *memoryCQ) WaitEvent(ctx, stop context.Context, seen uint32) error {
	defer context.AfterFunc(ctx, c.Interrupt)()
	defer context.AfterFunc(stop, c.Interrupt)()
	for c.Events() == seen {
		if err := c.ReadEvents(); err != nil {
			return err
		}
	}
	return cmp.Or(ctx.Err(), stop.Err())
}

func (c *memoryCQ) OpenReceives(int) (*Receives, error) { return &Receives{rq: c.of.NewRQ()}, nil }

// memoryConn is one end of a connection in memory.
type memoryConn struct {
	*inmem.QP
	peer  *memoryConn
	local netip.AddrPort
	over  context.Context // ends when the peer has ended the connection
	end   context.CancelFunc
}

// PipeEnd has the queues of one end of a pipe.
type PipeEnd struct {
	CQ       CQ
	Receives *Receives // nil: a queue of its own
	Access   ibv.AccessFlags
}

// Pipe returns the two ends of a connection in memory.
func Pipe(of [2]PipeEnd) [2]Conn {
	var ends [2]*memoryConn
	for i, o := range of {
		var rq *inmem.RQ
		if o.Receives != nil {
			rq = o.Receives.rq
		}
		cq := o.CQ.(*memoryCQ)
		ends[i] = &memoryConn{QP: cq.of.NewQP(cq.CQ, rq),
			local: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(i+1))}
		ends[i].over, ends[i].end = context.WithCancel(context.Background())
	}
	ends[0].peer, ends[1].peer = ends[1], ends[0]
	ends[0].Connect(ends[1].QP)
	for i, o := range of {
		_ = ends[i].Allow(o.Access) // it cannot fail
	}
	return [2]Conn{ends[0], ends[1]}
}

func (c *memoryConn) Queue() Queue { return Queue{mem: c.QP} }
func (*memoryConn) Reads() int     { return ReadsMost }
func (*memoryConn) Unused() bool   { return false }

// Close ends the connection. The peer hears of it.
func (c *memoryConn) Close() error {
	c.QP.Close()
	c.peer.end()
	return nil
}

func (c *memoryConn) OnDone(f func(error)) {
	context.AfterFunc(c.over, func() { f(rdmacm.ErrDisconnected) })
}

func (c *memoryConn) Addrs() (local, remote netip.AddrPort) { return c.local, c.peer.local }
