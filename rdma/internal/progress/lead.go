package progress

import (
	"context"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// A goroutine that reads events sleeps in ReadEvents, where neither its Signal nor the end of its wait reaches it. Wake
// interrupts ReadEvents, and the poller, which has nothing else to do, watches for the end of the wait. It watches for
// those ends that the goroutine had when it evicted the poller. A goroutine with others resigns.

const (
	EvictAfter = 4               // waits in a row, each soon after the last, after which the poller is evicted
	soon       = Absence / 2     // between their beginnings
	handedBack = -4 * EvictAfter // waits in a row, once others have begun to wait
)

var epoch = time.Now()

// lead makes the caller read events while it waits for a signal, if no other goroutine waits, and it has waited often
// lately, or another one has that is away. It reports whether it took the signal.
func (p *Progress) lead(b turn.Bound, sig *Signal) (took bool) {
	now := int64(time.Since(epoch))
	often := now-p.last.Swap(now) < int64(soon)
	switch s := p.load(); {
	case s.sleepers() > 0:
		p.streak.Store(handedBack)
		return false
	case s.reader() == nobody:
		if !p.step(state.lead) {
			return false
		}
		done, late := b.Ends()
		if p.ends != (ends{done, late}) {
			p.resign(true)
			return false
		}
		return p.read(sig, true)
	case !often:
		p.streak.Store(min(p.streak.Load(), 0))
		return false
	}
	if p.streak.Add(1) < EvictAfter || !p.step(state.evict) {
		return false
	}
	done, late := b.Ends()
	p.eviction <- ends{done, late}
	p.src.Interrupt()
	<-p.handover
	p.ends = ends{done, late}
	return p.read(sig, p.take())
}

// resign makes the poller read again. has reports whether the caller has the turn, which it returns.
// Preconditions: the caller reads.
func (p *Progress) resign(has bool) {
	p.streak.Store(handedBack)
	if has {
		p.cover(passAfter, true)
		return
	}
	p.change(state.resign)
	Token(p.promote)
}

// handOver is the poller's part of an eviction. It returns what to watch for.
// Preconditions: evicted. The caller is the poller.
func (p *Progress) handOver() ends {
	e := <-p.eviction
	p.change(state.handOver)
	p.handover <- struct{}{}
	return e
}

// standBy waits until the poller is promoted. Meanwhile it watches for the end of the wait of the goroutine that reads.
// There is one token for each promotion, and the poller reads again only with it: none is left over.
func (p *Progress) standBy(ctx context.Context, e ends) {
	for {
		select {
		case <-p.promote:
			return
		case <-ctx.Done():
			return
		case <-e.done:
			e.done = nil
		case <-e.late:
			e.late = nil
		}
		p.src.Interrupt()
	}
}

// read polls, and reads events, until there is a signal or p.ends is over, and reports whether it took the signal. has
// reports whether the caller has the turn.
// Preconditions: the caller reads.
func (p *Progress) read(sig *Signal, has bool) (took bool) {
	for {
		if has {
			p.Turns.Add(1)
			took, empty, err := p.drainFor(sig)
			switch {
			case err != nil:
				p.fail(err, true)
				return false
			case took && p.rest(true):
				return true
			case took || p.ends.over():
				p.resign(true)
				return took
			case !empty || !p.leaveCovered(false):
				continue
			}
		}
		event := false
		if sig.startReading() {
			var err error
			if !p.ends.over() {
				p.Wakes.Add(1)
				seen := p.src.Events()
				err = p.src.ReadEvents()
				event = p.src.Events() != seen
			}
			sig.stopReading()
			if err != nil {
				p.fail(err, false)
				return false
			}
		}
		if has = p.notice(event); has {
			continue
		}
		took := sig.Take()
		if took || p.ends.over() || p.load().has(closed) {
			p.resign(false)
			return took
		}
	}
}

// drainFor is drain for a goroutine that reads: it ends when there is a signal, and reports whether it took it. empty
// means that the CQ is empty and armed. It is not if others had completions: they may have no end.
// Preconditions: the turn.
func (p *Progress) drainFor(sig *Signal) (took, empty bool, err error) {
	for patient := true; ; {
		if err := p.serve(); err != nil {
			return false, false, err
		}
		n, err := p.src.Poll()
		if err != nil {
			return false, false, err
		}
		if n > 0 {
			p.armed = false
		}
		switch {
		case sig.Take():
			return true, false, nil
		case n > 0:
			return false, false, nil
		case p.armed:
			return false, true, nil
		case patient:
			patient = false
			yield() // while the peer works, more comes
		default:
			if err := p.src.Arm(); err != nil {
				return false, false, err
			}
			p.armed = true
		}
	}
}
