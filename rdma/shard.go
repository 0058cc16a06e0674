package rdma

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
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

const startConns = 32 // that the CQ has room for at first

// shard is a part of an engine with a CQ, an SRQ, blocks, a poller and connections of its own. An engine has one for
// each of EngineOptions.Pollers, and others for large blocks. They share the device, the PD, the budget and the pool.
type shard struct {
	eng       *Engine
	opt       EngineOptions // of this shard
	cq        nic.CQ
	stride    int // bytes of a block with its headroom
	slabBytes int64
	budget    *blocks.Budget
	blocks    *blocks.Set
	recvs     receiving
	large     *shard      // the shard of large blocks that goes with this one, or nil
	base      *shard      // of one of large blocks: the shard that it goes with
	opened    atomic.Bool // it has its objects
	unusable  bool        // one of large blocks, which could not be opened
	start     func()      // starts the poller
	vector    int         // completion vector
	most      most

	links   linkTable
	packets [datagram.Sockets]atomic.Pointer[packetSocket]
	ticks   atomic.Uint32 // seconds since the engine began, for KeepAlive

	members members
	crowd   pace.Crowd

	tickMu  sync.Mutex // held while the time is kept
	scratch scratch

	cqMu    sync.Mutex // held while the CQ grows; members.used grows only then
	cqConns int        // that it has room for

	canary   canary
	restless atomic.Bool // the device raises no event for a QP that has come to rest

	progress *progress.Progress // decides which goroutine polls the CQ, and reads its events

	stat stats
}

// scratch has lists of connections that are used again.
type scratch struct {
	beat    []*link // under tickMu
	collect []*link // without a lock: one goroutine collects
}

// newShard makes a shard without its objects.
func newShard(eng *Engine, o EngineOptions) *shard {
	e := &shard{eng: eng, opt: o, stride: o.Block + headroom, budget: eng.budget,
		members: members{conns: make(map[*link]struct{})}}
	e.cq = eng.nic.NewCQ(e.handle)
	e.progress = progress.New(e.cq, progress.Options{Manual: o.Manual, Spin: o.Spin, Fail: eng.failAll})
	e.setMost(mostSmall)
	e.slabBytes = slabSize
	e.blocks = e.newBlocks()
	return e
}

// most is how much of a thing there may be in a shard.
type most struct {
	window  uint32 // data frames that a peer may send ahead of the application
	stage   int    // frames that a stream keeps while it may not send
	signal  uint32 // every so many work requests one is signaled
	control int    // receives in addition to those that are granted: for frames that take no credit
}

var mostSmall = most{window: wire.MaxWindow, stage: stageMost, signal: sendq.Depth / 4, control: controlBlocks}

func (e *shard) setMost(m most) {
	e.most = m
	e.crowd.Share.Store(m.window)
}

// openShards makes the engine's objects; large reports whether streams may have larger blocks.
func (e *Engine) openShards(large bool) error {
	if e.dev != nil {
		if e.pd = e.opt.PD; e.pd == nil {
			var err error
			if e.pd, err = e.dev.AllocPD(); err != nil {
				return err
			}
		}
		e.nic = nic.OfDevice(e.pd)
	}
	if err := e.openProbe(); err != nil {
		return err
	}
	o := e.opt
	o.MaxConns = (o.MaxConns + o.Pollers - 1) / o.Pollers
	for range o.Pollers {
		e.shards = append(e.shards, newShard(e, o))
	}
	for _, s := range e.shards[:o.Pollers] {
		if large && hasSRQ(e.attr) {
			s.large = s.newLarge()
			e.shards = append(e.shards, s.large)
		}
	}
	for i, s := range e.shards {
		if e.dev != nil {
			s.vector = i % max(e.dev.NumCompVectors(), 1)
		}
	}
	for _, s := range e.shards[:o.Pollers] {
		if err := s.open(); err != nil {
			return err
		}
	}
	if e.dev == nil {
		return nil
	}
	path, _ := e.shards[0].cq.Device().DataPath()
	return e.openWindows(path)
}

// open makes the objects of a shard and posts the first receives.
func (e *shard) open() (err error) {
	e.sizeReceives()
	e.cqConns = min(startConns, e.opt.MaxConns)
	opt := nic.CQOptions{DataPath: e.opt.DataPath, Vector: e.vector, Manual: e.opt.Manual}
	if err := e.cq.Open(e.completions(e.cqConns), opt); err != nil {
		return err
	}
	if cq := e.cq.Device(); cq != nil {
		e.eng.own.Store(cq, true)
	}
	if err := errors.Join(e.openReceives(), e.measure()); err != nil { // measure names the limit that the SRQ exceeded
		return err
	}
	if e.cq.Device() != nil && !e.opt.Manual {
		e.openCanary()
	}
	e.opened.Store(true)
	return nil
}

// closeShard closes the objects of a shard.
func (e *shard) closeShard() error {
	var errs []error
	if e.canary.qp != nil {
		errs = append(errs, e.canary.qp.Close())
	}
	if e.recvs.queue != nil {
		errs = append(errs, e.recvs.queue.Close())
	}
	errs = append(errs, e.blocks.Close()...)
	return errors.Join(append(errs, e.cq.Close())...)
}

// shard returns the one with the fewest connections.
func (e *Engine) shard() *shard {
	var best *shard
	least := 0
	for i, s := range e.shards[:e.opt.Pollers] {
		if used := s.places(); i == 0 || used < least {
			best, least = s, used
		}
	}
	return best
}

// places is how many places for connections are reserved, also those of streams with large blocks.
func (e *shard) places() int {
	if e == nil {
		return 0
	}
	return e.members.places() + e.large.places()
}

// reserve makes room for a connection, which may have large blocks, and returns the shard that it belongs to: e, or
// that of large blocks.
func (e *shard) reserve(large bool) (*shard, error) {
	e.cqMu.Lock()
	defer e.cqMu.Unlock()
	used := e.places()
	switch {
	case e.eng.broken():
		return nil, &ibv.OpError{Op: "connect", Object: "engine of " + e.eng.name(), Err: errGone}
	case e.members.isClosed():
		return nil, &ibv.OpError{Op: "connect", Object: "engine of " + e.eng.name(), Err: ErrClosed}
	case used >= e.opt.MaxConns:
		return nil, &ibv.LimitError{What: "connections", Asked: uint64(used + 1), Limit: uint64(e.opt.MaxConns),
			Where: "the engine of " + e.eng.name()}
	case large && e.large.admit():
		return e.large, nil
	}
	if err := e.resume(); err != nil {
		return nil, err
	}
	return e, e.place()
}

// place reserves a place for a connection, if MaxConns allows another one.
// Preconditions: cqMu is held, of large blocks that of the shard that they go with.
func (e *shard) place() error {
	if e.members.places() == e.cqConns {
		n := min(2*e.cqConns, e.opt.MaxConns)
		if err := e.cq.Resize(e.completions(n)); err != nil {
			return err
		}
		e.cqConns = n
	}
	e.members.reserve(1)
	return nil
}

// add makes l a connection of the engine: its frames are delivered from now on. It has blocks later: see start.
func (e *shard) add(l *link) {
	e.recvs.begin(l)
	e.links.set(l.qpn, l)
	e.members.add(l)
}

// remove undoes add.
func (e *shard) remove(l *link) {
	l.mu.Lock()
	l.win.account.End(l.win.recv.Kept())
	l.mu.Unlock()
	e.members.remove(l)
	l.end.Forgotten()
}

// link returns the connection of a QPN, or nil.
func (e *Engine) link(qpn uint32) *link {
	for _, s := range e.shards {
		if l := s.links.get(qpn); l != nil {
			return l
		}
	}
	return nil
}
