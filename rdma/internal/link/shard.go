package link

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/pace"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
)

const startConns = 32 // that the CQ has room for at first

// Shard is a part of an engine with a CQ, an SRQ, blocks, a poller and connections of its own. An engine has one for
// each of EngineOptions.Pollers, and others for large blocks. They share the device, the PD, the budget and the pool.
type Shard struct {
	Engine    *Engine
	Options   EngineOptions // of this shard
	CQ        nic.CQ
	Stride    int // bytes of a block with its headroom
	slabBytes int64
	budget    *blocks.Budget
	Blocks    *blocks.Set
	Receives  receiving
	Large     *Shard      // the shard of large blocks that goes with this one, or nil
	base      *Shard      // of one of large blocks: the shard that it goes with
	Opened    atomic.Bool // it has its objects
	unusable  bool        // one of large blocks, which could not be opened
	start     func()      // starts the poller
	vector    int         // completion vector
	Most      most

	links   linkTable
	packets [datagram.Sockets]atomic.Pointer[PacketSocket]
	Ticks   atomic.Uint32 // seconds since the engine began, for KeepAlive

	Members members
	crowd   pace.Crowd

	TickMu  sync.Mutex // held while the time is kept
	scratch scratch

	cqMu    sync.Mutex // held while the CQ grows; members.used grows only then
	cqConns int        // that it has room for

	canary   canary
	restless atomic.Bool // the device raises no event for a QP that has come to rest

	Progress *progress.Progress // decides which goroutine polls the CQ, and reads its events

	Stat stats
}

// stats counts what is done.
type stats struct {
	Batches, Completions, Doorbells atomic.Uint64
	Leases                          atomic.Int64
	Refused                         atomic.Uint64
}

// scratch has lists of connections that are used again.
type scratch struct {
	beat    []*Link // under tickMu
	collect []*Link // without a lock: one goroutine collects
}

// newShard makes a shard without its objects.
func newShard(eng *Engine, o EngineOptions) *Shard {
	e := &Shard{Engine: eng, Options: o, Stride: o.Block + Headroom, budget: eng.Budget,
		Members: members{conns: make(map[*Link]struct{})}}
	e.CQ = eng.NIC.NewCQ(e.handle)
	e.Progress = progress.New(e.CQ, progress.Options{Manual: o.Manual, Spin: o.Spin, Fail: eng.failAll})
	e.setMost(MostSmall)
	e.slabBytes = SlabSize
	e.Blocks = e.newBlocks()
	return e
}

func (e *Shard) setMost(m most) {
	e.Most = m
	e.crowd.Share.Store(m.Window)
}

// openShards makes the engine's objects; large reports whether streams may have larger blocks.
func (e *Engine) openShards(large bool) error {
	if e.Device != nil {
		if e.PD = e.Options.PD; e.PD == nil {
			var err error
			if e.PD, err = e.Device.AllocPD(); err != nil {
				return err
			}
		}
		e.NIC = nic.OfDevice(e.PD)
	}
	if err := e.openProbe(); err != nil {
		return err
	}
	o := e.Options
	o.MaxConns = (o.MaxConns + o.Pollers - 1) / o.Pollers
	for range o.Pollers {
		e.Shards = append(e.Shards, newShard(e, o))
	}
	for _, s := range e.Shards[:o.Pollers] {
		if large && HasSRQ(e.Attr) {
			s.Large = s.newLarge()
			e.Shards = append(e.Shards, s.Large)
		}
	}
	for i, s := range e.Shards {
		if e.Device != nil {
			s.vector = i % max(e.Device.NumCompVectors(), 1)
		}
	}
	for _, s := range e.Shards[:o.Pollers] {
		if err := s.open(); err != nil {
			return err
		}
	}
	if e.Device == nil {
		return nil
	}
	path, _ := e.Shards[0].CQ.Device().DataPath()
	return e.openWindows(path)
}

// open makes the objects of a shard and posts the first receives.
func (e *Shard) open() (err error) {
	e.sizeReceives()
	e.cqConns = min(startConns, e.Options.MaxConns)
	opt := nic.CQOptions{DataPath: e.Options.DataPath, Vector: e.vector, Manual: e.Options.Manual}
	if err := e.CQ.Open(e.completions(e.cqConns), opt); err != nil {
		return err
	}
	if cq := e.CQ.Device(); cq != nil {
		e.Engine.own.Store(cq, true)
	}
	if err := errors.Join(e.openReceives(), e.measure()); err != nil { // measure names the limit that the SRQ exceeded
		return err
	}
	if e.CQ.Device() != nil && !e.Options.Manual {
		e.openCanary()
	}
	e.Opened.Store(true)
	return nil
}

// closeShard closes the objects of a shard.
func (e *Shard) closeShard() error {
	var errs []error
	if e.canary.qp != nil {
		errs = append(errs, e.canary.qp.Close())
	}
	if e.Receives.queue != nil {
		errs = append(errs, e.Receives.queue.Close())
	}
	errs = append(errs, e.Blocks.Close()...)
	return errors.Join(append(errs, e.CQ.Close())...)
}

// Shard returns the one with the fewest connections.
func (e *Engine) Shard() *Shard {
	var best *Shard
	least := 0
	for i, s := range e.Shards[:e.Options.Pollers] {
		if used := s.Places(); i == 0 || used < least {
			best, least = s, used
		}
	}
	return best
}

// Places is how many places for connections are reserved, also those of streams with large blocks.
func (e *Shard) Places() int {
	if e == nil {
		return 0
	}
	return int(e.Members.Places.Load()) + e.Large.Places()
}

// Reserve makes room for a connection, which may have large blocks, and returns the shard that it belongs to: e, or
// that of large blocks.
func (e *Shard) Reserve(large bool) (*Shard, error) {
	e.cqMu.Lock()
	defer e.cqMu.Unlock()
	used := e.Places()
	switch {
	case e.Engine.Broken():
		return nil, &ibv.OpError{Op: "connect", Object: "engine of " + e.Engine.Name(), Err: ErrGone}
	case e.Members.closed.Load():
		return nil, &ibv.OpError{Op: "connect", Object: "engine of " + e.Engine.Name(), Err: ibv.ErrClosed}
	case used >= e.Options.MaxConns:
		return nil, &ibv.LimitError{What: "connections", Asked: uint64(used + 1), Limit: uint64(e.Options.MaxConns),
			Where: "the engine of " + e.Engine.Name()}
	case large && e.Large.admit():
		return e.Large, nil
	}
	if err := e.resume(); err != nil {
		return nil, err
	}
	return e, e.place()
}

// place reserves a place for a connection, if MaxConns allows another one.
// Preconditions: cqMu is held, of large blocks that of the shard that they go with.
func (e *Shard) place() error {
	if int(e.Members.Places.Load()) == e.cqConns {
		n := min(2*e.cqConns, e.Options.MaxConns)
		if err := e.CQ.Resize(e.completions(n)); err != nil {
			return err
		}
		e.cqConns = n
	}
	e.Members.Places.Add(1)
	return nil
}

// add makes l a connection of the engine: its frames are delivered from now on. It has blocks later: see start.
func (e *Shard) add(l *Link) {
	e.Receives.begin(l)
	e.links.set(l.QPN, l)
	e.Members.add(l)
}

// remove undoes add.
func (e *Shard) remove(l *Link) {
	l.Mu.Lock()
	l.Window.account.End(l.Window.Recv.Kept())
	l.Mu.Unlock()
	e.Members.remove(l)
	l.End.Forgotten()
}

// link returns the connection of a QPN, or nil.
func (e *Engine) link(qpn uint32) *Link {
	for _, s := range e.Shards {
		if l := s.links.get(qpn); l != nil {
			return l
		}
	}
	return nil
}

// PipeEnd returns the queues of a connection of this shard.
func (e *Shard) PipeEnd() nic.PipeEnd {
	return nic.PipeEnd{CQ: e.CQ, Receives: e.Receives.queue, Access: LeastAccess(e.Family())}
}
