package rdma

import (
	"cmp"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Pipe returns the two ends of a connection within this process, for tests of services. It needs no device and no
// library. Everything above the adapter is the same as with Dial: credits, limits, leases, ends and errors. Both ends
// use an [Engine] in memory, which CloseIdle closes. Their addresses, 127.0.0.1:1 and 127.0.0.1:2, mean nothing.
//
// opt may be nil, and applies to both ends.
func Pipe(opt *Options) (a, b *Conn, err error) {
	o := *cmp.Or(opt, &Options{})
	fail := func(err error) (*Conn, *Conn, error) {
		return nil, nil, &ibv.OpError{Op: "connect", Object: nic.PipeName, Err: public(err)}
	}
	if err := o.check(callPipe); err != nil {
		return fail(err)
	}
	create := func() (*Engine, error) { return newMemoryEngine(nil, inmem.New()) }
	var ends [2]*link.Link
	if _, err := useShared(nic.PipeName, create, func(e *link.Engine) (err error) {
		own := e.Owner.(*Engine)
		ends, err = pipe(wire.Messages, [2]*Engine{own, own}, [2]*Options{&o, &o})
		return err
	}); err != nil {
		return fail(err)
	}
	return openConn(ends[0]), openConn(ends[1]), nil
}

// pipe makes a connection of two engines in memory, which may be the same.
func pipe(kind wire.ConnKind, engines [2]*Engine, opts [2]*Options) (ends [2]*link.Link, err error) {
	var hellos [2]wire.Hello
	var attempts [2]*attempt
	undo := func(err error) ([2]*link.Link, error) {
		for _, a := range attempts {
			if a != nil {
				a.failed(nil, err)
			}
		}
		return [2]*link.Link{}, err
	}
	for i, opt := range opts {
		a := &attempt{kind: kind, opt: opt, leases: opt.leases(kind)}
		attempts[i] = a
		if err := a.enter(engines[i].e.Shard()); err != nil {
			return undo(err)
		}
		hellos[i] = a.hello()
	}
	pipes := nic.Pipe([2]nic.PipeEnd{attempts[0].e.PipeEnd(), attempts[1].e.PipeEnd()})
	for i, a := range attempts {
		if hellos[1-i].Flags&wire.HelloLeases == 0 {
			a.leases = nil
		}
		if err := a.begin(pipes[i], i == 0); err != nil {
			return undo(err)
		}
	}
	for i, a := range attempts {
		if err := a.link.Start(hellos[1-i]); err != nil {
			return undo(err)
		}
		ends[i] = a.link
	}
	return ends, nil
}

// newMemoryEngine makes an engine without a device. Engines with the same adapter can be connected.
func newMemoryEngine(opt *EngineOptions, mem *inmem.Adapter) (*Engine, error) {
	o, err := opt.inner()
	if err != nil {
		return nil, err
	}
	e, err := link.OpenMemory(mem, o)
	if err != nil {
		return nil, err
	}
	return engineOf(e), nil
}
