package rdma

import (
	"cmp"
	"context"
	"net/netip"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// Pipe returns the two ends of a connection within this process, for tests of services. It needs no device and no
// library. Everything above the adapter is the same as with Dial: credits, limits, leases, ends and errors. Both ends
// use an [Engine] in memory, which CloseIdle closes. Their addresses, 127.0.0.1:1 and 127.0.0.1:2, mean nothing.
//
// opt may be nil, and applies to both ends.
func Pipe(opt *Options) (a, b *Conn, err error) {
	var o Options
	if opt != nil {
		o = *opt
	}
	fail := func(err error) (*Conn, *Conn, error) {
		return nil, nil, &ibv.OpError{Op: "connect", Object: pipeName, Err: err}
	}
	if err := o.check(callPipe); err != nil {
		return fail(err)
	}
	create := func() (*Engine, error) { return newMemoryEngine(nil, inmem.New()) }
	var ends [2]*link
	if _, err := useShared(pipeName, create, func(e *Engine) (err error) {
		ends, err = pipe(wire.Messages, [2]*Engine{e, e}, [2]*Options{&o, &o})
		return err
	}); err != nil {
		return fail(err)
	}
	return ends[0].openConn(), ends[1].openConn(), nil
}

// pipe makes a connection of two engines in memory, which may be the same.
func pipe(kind wire.ConnKind, engines [2]*Engine, opts [2]*Options) (ends [2]*link, err error) {
	var hellos [2]wire.Hello
	var attempts [2]*attempt
	undo := func(err error) ([2]*link, error) {
		for _, a := range attempts {
			if a != nil {
				a.failed(nil, err)
			}
		}
		return [2]*link{}, err
	}
	for i, opt := range opts {
		a := &attempt{kind: kind, opt: opt, leases: opt.leases(kind)}
		attempts[i] = a
		if err := a.enter(engines[i].shard()); err != nil {
			return undo(err)
		}
		hellos[i] = a.hello()
	}
	pipes := newPipe(attempts[0].e, attempts[1].e)
	for i, a := range attempts {
		if hellos[1-i].Flags&wire.HelloLeases == 0 {
			a.leases = nil
		}
		if err := a.begin(port{pipe: pipes[i]}, i == 0); err != nil {
			return undo(err)
		}
	}
	for i, a := range attempts {
		if err := a.link.start(hellos[1-i]); err != nil {
			return undo(err)
		}
		ends[i] = a.link
	}
	return ends, nil
}

// pipeEnd is one end of a connection in memory.
type pipeEnd struct {
	qp    *inmem.QP
	peer  *pipeEnd
	local netip.AddrPort
	done  ended
}

func newPipe(a, b *shard) [2]*pipeEnd {
	var ends [2]*pipeEnd
	for i, s := range []*shard{a, b} {
		rq := s.mem.rq
		if s.recvs.shared == nil {
			rq = nil
		}
		ends[i] = &pipeEnd{qp: s.eng.nic.mem.NewQP(s.mem.cq, rq),
			local: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(i+1))}
	}
	ends[0].peer, ends[1].peer = ends[1], ends[0]
	ends[0].qp.Connect(ends[1].qp)
	for i, s := range []*shard{a, b} {
		ends[i].qp.Allow(leastAccess(s.family()))
	}
	return ends
}

// close ends the connection. The peer hears of it.
func (p *pipeEnd) close() {
	p.qp.Close()
	p.peer.done.end()
}

// ended calls functions once something has ended.
type ended struct {
	mu   sync.Mutex
	over bool
	list []func(error)
}

func (e *ended) add(f func(error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		go f(rdmacm.ErrDisconnected)
		return
	}
	e.list = append(e.list, f)
}

func (e *ended) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	for _, f := range e.list {
		go f(rdmacm.ErrDisconnected)
	}
	e.list = nil
}

// newMemoryEngine makes an engine without a device. Engines with the same adapter can be connected.
func newMemoryEngine(opt *EngineOptions, mem *inmem.Adapter) (*Engine, error) {
	var o EngineOptions
	if opt != nil {
		o = *opt
	}
	full := o.withDefaults()
	if err := full.check(); err != nil {
		return nil, err
	}
	e := &Engine{nic: adapter{mem: mem}, attr: &ibv.DeviceAttr{MaxSRQ: 1, MaxSRQWR: 1 << 15, MaxQPWR: 1 << 15,
		MaxCQE: 1 << 22, AtomicCap: ibv.AtomicHCA}}
	if mem.Transport() == ibv.TransportIWARP {
		e.attr.MaxSRQ, e.attr.AtomicCap = 0, ibv.AtomicNone
	}
	return e, e.begin(o)
}

// queues are a shard's queues in memory.
type queues struct {
	cq *inmem.CQ
	rq *inmem.RQ
}

// openMemory makes a shard's queues in memory.
func (e *shard) openMemory() {
	mem := e.eng.nic.mem
	e.mem = &queues{mem.NewCQ(), mem.NewRQ()}
}

// memoryCompletions is a CQ in memory as package progress sees it.
type memoryCompletions struct {
	e   *shard
	wcs [pollMost]ibv.WC
}

func (s *memoryCompletions) Poll() (int, error) {
	n, err := s.e.mem.cq.Poll(s.wcs[:])
	if n > 0 {
		s.e.handle(s.wcs[:n])
	}
	return n, err
}

func (s *memoryCompletions) Depth() int        { return s.e.mem.cq.Len() }
func (s *memoryCompletions) Arm() error        { return s.e.mem.cq.Arm() }
func (s *memoryCompletions) Events() uint32    { return s.e.mem.cq.Events() }
func (s *memoryCompletions) ReadEvents() error { return s.e.mem.cq.ReadEvents() }
func (s *memoryCompletions) Interrupt()        { s.e.mem.cq.Interrupt() }

// WaitEvent reads the events, as nobody else does.
func (s *memoryCompletions) WaitEvent(ctx, stop context.Context, seen uint32) error {
	defer context.AfterFunc(ctx, s.Interrupt)()
	defer context.AfterFunc(stop, s.Interrupt)()
	for s.Events() == seen {
		if err := s.ReadEvents(); err != nil {
			return err
		}
	}
	return cmp.Or(ctx.Err(), stop.Err())
}
