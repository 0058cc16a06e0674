package link

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
func (e *Shard) handle(wcs []ibv.WC) {
	var l *Link
	for i := range wcs {
		wc := &wcs[i]
		if l == nil || l.QPN != wc.QPN {
			if l != nil {
				l.handled()
			}
			if l = e.links.get(wc.QPN); l != nil {
				l.Mu.Lock()
			}
		}
		if !blocks.IsReceive(wc.ID) {
			if l != nil {
				l.complete(wc)
			} else if socket, ok := datagram.Socket(wc); ok {
				if c := e.packets[socket].Load(); c != nil {
					c.complete(wc)
				}
			} else if wc.QPN == e.canary.qpn {
				e.canary.sung.Store(true)
			}
			continue
		}
		b := e.Blocks.Arrived(wc.ID)
		switch {
		case b == nil: // its queue has gone, and the block was given back
		case wc.Status == ibv.WCSuccess && l != nil && wc.Opcode == ibv.WCRecv && wc.Flags&ibv.WCWithInv == 0:
			l.receive(b, wc.ByteLen)
		case wc.Status == ibv.WCSuccess && l != nil:
			e.Blocks.Consumed(b)
			l.Protocol("receive", wc.Opcode.String()+" "+wc.Flags.String(), ibv.WCRecv.String())
		case l != nil:
			l.receiveFailed(wc) // first, so that no receive is posted in its place
			e.Blocks.Consumed(b)
		default:
			e.Blocks.Consumed(b)
		}
	}
	if l != nil {
		l.handled()
	}
	e.Stat.Batches.Add(1)
	e.Stat.Completions.Add(uint64(len(wcs)))
	e.Blocks.Refill()
}

// receiveFailed ends the connection: a receive has failed. A flush of the connection's own queue has a reason, which
// the device or the connection manager is about to report.
// Preconditions: l.Mu is held.
func (l *Link) receiveFailed(wc *ibv.WC) {
	err := completionError(wc)
	if wc.Status != ibv.WCWRFlushErr || l.Shard.Receives.Shared != nil {
		l.failLocked(err)
	} else if l.Window.account.Stop() {
		time.AfterFunc(DrainTime/4, func() { l.Fail(err) })
	}
}

// handled unlocks a connection after consecutive completions. It wakes the reader once for all of them.
// Preconditions: l.Mu is held.
func (l *Link) handled() {
	if l.Inbox.wake() {
		l.wakeReader()
	}
	l.Mu.Unlock()
}

// tick asks the peers' adapters of idle connections whether they are there, and makes windows fit, each second. When
// there are no blocks, it collects some.
func (e *Engine) tick(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		what := (*Shard).Beat
		select {
		case <-ctx.Done():
			return
		case <-e.short:
			time.Sleep(collectPause)
			what = (*Shard).collect
			e.Messages.Poke()
		case <-t.C:
			e.Messages.Tick()
			if e.Pool.Wanted() {
				e.Trim(false)
			}
		}
		e.Each(what)
	}
}

// Each calls f for each shard that is open. One of large blocks is opened by the first stream.
func (e *Engine) Each(f func(*Shard)) {
	for _, s := range e.Shards {
		if s.Opened.Load() {
			f(s)
		}
	}
}

// Beat is a tick of a shard.
func (e *Shard) Beat() {
	if !e.TickMu.TryLock() {
		return // a test keeps the time
	}
	defer e.TickMu.Unlock()
	e.BeatLocked()
}

// Preconditions: e.TickMu is held.
func (e *Shard) BeatLocked() {
	now := e.Ticks.Add(1)
	e.Blocks.Scarce.Store(false)
	e.Blocks.Poke()
	e.listen()
	if e.Members.Places.Load() == 0 {
		e.trim(false)
	}
	e.scratch.beat = e.Members.Append(e.scratch.beat[:0])
	e.fit(now, e.scratch.beat)
	for i, l := range e.scratch.beat {
		l.keep(now)
		e.scratch.beat[i] = nil
	}
}

// fit makes the windows of a shard fit to its blocks.
// Preconditions: e.TickMu is held.
func (e *Shard) fit(now uint32, links []*Link) {
	e.crowd.Tick(e.RecvMost()-e.RecvMost()/8, e.Most.Window)
	for _, l := range links {
		l.Mu.Lock()
		idle := l.Alive.Idle(now)
		if most, shrink := e.crowd.Fit(idle); shrink {
			if !idle {
				most = l.Window.share(most)
			}
			l.Window.shrink(most, idle)
		}
		l.Mu.Unlock()
	}
}

// collect has idle connections give their blocks back. Without a completion they would keep them.
func (e *Shard) collect() {
	e.Blocks.Poke()
	e.scratch.collect = e.Members.Append(e.scratch.collect[:0])
	for i, l := range e.scratch.collect {
		l.collect(sendq.Memory)
		e.scratch.collect[i] = nil
	}
}

// collect asks for the completion of what is under way, as ask does.
func (l *Link) collect(n sendq.Need) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.ask(n)
}

// collectPause is between two looks for blocks. Connections that send meanwhile return their own blocks.
const collectPause = time.Millisecond

// keep sends a PING if the connection has been idle for long enough, or the peer's adapter has acknowledged nothing. It
// gives the connection up if none of several completes.
func (l *Link) keep(now uint32) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.Alive.Quiet(now) {
		l.ask(sendq.Buffers)
	}
	if !l.Started || l.End.Ending { // a handshake has a limit of its own
		return
	}
	switch l.Alive.Beat(now, l.Queue.Acked != l.Queue.Posted) {
	case pace.Ask:
		l.Queue.Inquire()
		l.Pump()
	case pace.Stuck:
		if !l.Shard.Options.Manual {
			l.failLocked(pace.ErrSilent)
		}
	}
}
