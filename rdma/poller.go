package rdma

import (
	"context"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdma/internal/pace"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
)

// handle handles completions. Consecutive ones of a connection take its lock once.
func (e *shard) handle(wcs []ibv.WC) {
	var l *link
	for i := range wcs {
		wc := &wcs[i]
		if l == nil || l.qpn != wc.QPN {
			if l != nil {
				l.handled()
			}
			if l = e.links.get(wc.QPN); l != nil {
				l.mu.Lock()
			}
		}
		if !blocks.IsReceive(wc.ID) {
			if l != nil {
				l.complete(wc)
			} else if socket, ok := datagram.Socket(wc); ok {
				e.packet(socket, wc)
			} else if wc.QPN == e.canary.qpn {
				e.canary.sung.Store(true)
			}
			continue
		}
		b := e.blocks.Arrived(wc.ID)
		switch {
		case b == nil: // its queue has gone, and the block was given back
		case wc.Status == ibv.WCSuccess && l != nil && wc.Opcode == ibv.WCRecv && wc.Flags&ibv.WCWithInv == 0:
			l.receive(b, wc.ByteLen)
		case wc.Status == ibv.WCSuccess && l != nil:
			e.consumed(b)
			l.protocol("receive", wc.Opcode.String()+" "+wc.Flags.String(), ibv.WCRecv.String())
		case l != nil:
			l.receiveFailed(wc) // first, so that no receive is posted in its place
			e.consumed(b)
		default:
			e.consumed(b)
		}
	}
	if l != nil {
		l.handled()
	}
	e.stat.batches.Add(1)
	e.stat.completions.Add(uint64(len(wcs)))
	e.blocks.Refill()
}

// handled unlocks a connection after consecutive completions. It wakes the reader once for all of them.
// Preconditions: l.mu is held.
func (l *link) handled() {
	if l.in.wake() {
		l.wakeReader()
	}
	l.mu.Unlock()
}

// tick asks the peers' adapters of idle connections whether they are there, and makes windows fit, each second. When
// there are no blocks, it collects some.
func (e *Engine) tick(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		what := (*shard).beat
		select {
		case <-ctx.Done():
			return
		case <-e.short:
			time.Sleep(collectPause)
			what = (*shard).collect
			e.messages.Poke()
		case <-t.C:
			e.messages.Tick()
			if e.pool.Wanted() {
				e.trim(false)
			}
		}
		e.each(what)
	}
}

// each calls f for each shard that is open. One of large blocks is opened by the first stream.
func (e *Engine) each(f func(*shard)) {
	for _, s := range e.shards {
		if s.opened.Load() {
			f(s)
		}
	}
}

// beat is a tick of a shard.
func (e *shard) beat() {
	if !e.tickMu.TryLock() {
		return // a test keeps the time
	}
	defer e.tickMu.Unlock()
	e.beatLocked()
}

// Preconditions: e.tickMu is held.
func (e *shard) beatLocked() {
	now := e.ticks.Add(1)
	e.blocks.Calm()
	e.blocks.Poke()
	e.listen()
	if e.members.places() == 0 {
		e.trim(false)
	}
	e.scratch.beat = e.members.append(e.scratch.beat[:0])
	e.fit(now, e.scratch.beat)
	for i, l := range e.scratch.beat {
		l.keep(now)
		e.scratch.beat[i] = nil
	}
}

// collect has idle connections give their blocks back.
func (e *shard) collect() {
	e.blocks.Poke()
	e.scratch.collect = e.members.append(e.scratch.collect[:0])
	for i, l := range e.scratch.collect {
		l.collect()
		e.scratch.collect[i] = nil
	}
}

// collect asks for a completion, if memory was sent without: an idle connection would keep it.
func (l *link) collect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ask(sendq.Memory)
}

// collectPause is between two looks for blocks. Connections that send meanwhile return their own blocks.
const collectPause = time.Millisecond

// keep sends a PING if the connection has been idle for long enough, or the peer's adapter has acknowledged nothing. It
// gives the connection up if none of several completes.
func (l *link) keep(now uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alive.Quiet(now) {
		l.ask(sendq.Buffers)
	}
	if !l.started || l.end.Ending() { // a handshake has a limit of its own
		return
	}
	switch l.alive.Beat(now, l.q.Acked() != l.q.Posted()) {
	case pace.Ask:
		l.q.Inquire()
		l.pump()
	case pace.Stuck:
		if !l.e.opt.Manual {
			l.failLocked(pace.ErrSilent)
		}
	}
}
