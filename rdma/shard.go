package rdma

import (
	"errors"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// An engine consists of shards: itself, and with EngineOptions.Pollers others, which have a CQ, an SRQ,
// blocks, a poller and connections of their own, and share the device, the PD, the budget and the pool.

// newShard makes a shard without its objects.
func newShard(o EngineOptions, dev *ibv.Device) *Engine {
	e := &Engine{opt: o, dev: dev, stride: o.Block + headroom, conns: make(map[*link]struct{}),
		gone: make(chan struct{}), pollTurn: make(chan struct{}, 1), wcs: make([]ibv.WC, pollMost),
		short: make(chan struct{}, 1)}
	e.lead = newLead()
	e.lookTimer = time.AfterFunc(time.Hour, e.look)
	e.lookTimer.Stop()
	e.setMost(mostSmall)
	e.perSlab = max(slabSize/e.stride, 1)
	e.slabBytes = slabSize
	return e
}

// most is how much of a thing there may be in a shard.
type most struct {
	window  uint32 // data frames that a peer may send ahead of the application
	stage   int    // frames that a stream keeps while it may not send
	signal  uint32 // every so many work requests one is signaled
	control int    // receives in addition to those that are granted: for frames that take no credit
}

var mostSmall = most{window: wire.MaxWindow, stage: stageMost, signal: sqSignal, control: controlBlocks}

func (e *Engine) setMost(m most) {
	e.most = m
	e.share.Store(m.window)
}

// openShards makes the engine's objects; large reports whether streams may have larger blocks.
func (e *Engine) openShards(large bool) error {
	e.shards = []*Engine{e}
	attr, err := e.dev.QueryDevice()
	if err != nil {
		return err
	}
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return err
	}
	o := e.opt
	o.MaxConns = (o.MaxConns + o.Pollers - 1) / o.Pollers
	e.opt.MaxConns = o.MaxConns
	for len(e.shards) < o.Pollers {
		s := newShard(o, e.dev)
		s.pd, s.budget, s.pool, s.short = e.pd, e.budget, e.pool, e.short
		e.shards = append(e.shards, s)
	}
	for _, s := range e.shards[:o.Pollers] {
		if large {
			s.large = s.newLarge()
			e.shards = append(e.shards, s.large)
		}
	}
	for i, s := range e.shards {
		s.shards, s.attr, s.vector = e.shards, attr, i%max(e.dev.NumCompVectors(), 1)
	}
	for _, s := range e.shards[:o.Pollers] {
		if err := s.open(); err != nil {
			return err
		}
	}
	return nil
}

// closeShard closes the objects of a shard.
func (e *Engine) closeShard() error {
	var errs []error
	if e.srq != nil {
		errs = append(errs, e.srq.Close())
	}
	for _, mr := range e.slabs {
		errs = append(errs, mr.Close())
	}
	if e.cq != nil {
		errs = append(errs, e.cq.Close())
	}
	if e.channel != nil {
		errs = append(errs, e.channel.Close())
	}
	return errors.Join(errs...)
}

// shard returns the one with the fewest connections.
func (e *Engine) shard() *Engine {
	best, least := e, 0
	for i, s := range e.shards[:e.opt.Pollers] {
		if used := s.places(); i == 0 || used < least {
			best, least = s, used
		}
	}
	return best
}

// places is how many places for connections are reserved, also those of streams with large blocks.
func (e *Engine) places() int {
	if e == nil {
		return 0
	}
	e.mu.Lock()
	used := e.used
	e.mu.Unlock()
	return used + e.large.places()
}

// appendLinks appends the connections of a shard.
func (e *Engine) appendLinks(list []*link) []*link {
	e.mu.Lock()
	defer e.mu.Unlock()
	for l := range e.conns {
		list = append(list, l)
	}
	return list
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

// maySlab reports whether the shard's part of the memory has room for another slab. The first is always there.
func (e *Engine) maySlab() bool {
	return len(e.slabs) == 0 || int64(len(e.slabs)+1)*e.slabBytes <= e.opt.Memory/int64(e.opt.Pollers)
}
