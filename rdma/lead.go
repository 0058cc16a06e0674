package rdma

import (
	"context"
	"sync/atomic"
	"time"
)

// The events of a shard's CQ are read by one goroutine at a time: the poller, or a goroutine that waits for frames or
// for room again and again while no other goroutine waits. Such a goroutine also polls, so that an event wakes one
// goroutine. Otherwise an event wakes two, one after the other, and for each of them Go's scheduler wakes a thread that
// looks for more to do.
//
// A goroutine whose wait is over is away: it will be back, and until then no goroutine reads. A timer checks after
// absence whether it came back. If another goroutine begins to wait, the poller reads at once.

// The reader of events. Only the reader changes this state, except for readPoller to readEvicted, and readAway to
// readFree.
const (
	readFree    uint32 = iota // none: the poller is about to read
	readPoller                // the poller
	readEvicted               // the poller, which is to hand over
	readWaiter                // a goroutine that waits
	readAway                  // none: the goroutine that has waited will be back
)

const (
	evictAfter = 4               // waits in a row, each soon after the last, after which the poller is evicted
	soon       = absence / 2     // between their beginnings
	handedBack = -4 * evictAfter // waits in a row, once others have begun to wait
)

// lead decides which goroutine reads the events of a shard.
type lead struct {
	reading  atomic.Uint32
	asleep   atomic.Pointer[chan struct{}] // channel that the reading goroutine waits for
	promote  chan struct{}                 // has a token when the poller may read
	handover chan struct{}                 // from the poller to the goroutine that evicts it

	done, late <-chan struct{} // end the waits of the goroutine that evicted the poller, which watches them

	streak atomic.Int32 // waits in a row
	last   atomic.Int64 // when the last began, since epoch
}

var epoch = time.Now()

func newLead() lead {
	return lead{promote: make(chan struct{}, 1), handover: make(chan struct{})}
}

// readOrWait reads events until there were others than seen. If somebody else reads, it waits until it may; there may
// be completions then. It is called by the poller.
func (e *shard) readOrWait(ctx context.Context, seen uint32) error {
	r := &e.lead
	var done, late <-chan struct{}
	for ctx.Err() == nil {
		if !r.reading.CompareAndSwap(readFree, readPoller) {
			select {
			case <-r.promote:
				// A token may be left over: the poller can see that nobody reads before the token comes. Then somebody
				// reads whose ends it must watch.
				if r.reading.Load() == readFree {
					return nil
				}
			case <-ctx.Done():
			case <-done:
				done = nil
				e.channel.Interrupt()
			case <-late:
				late = nil
				e.channel.Interrupt()
			}
			continue
		}
		var err error
		there := e.cq.Events() != seen
		if !there && ctx.Err() == nil {
			err = e.channel.ReadEvents()
		}
		if !r.reading.CompareAndSwap(readPoller, readFree) {
			r.handover <- struct{}{}
			done, late = r.done, r.late
			continue
		}
		if err != nil || there {
			return err
		}
	}
	return ctx.Err()
}

// leads makes the waiting goroutine the reader, if no other one waits and it has waited often lately. done and late end
// the wait.
func (e *shard) leads(done, late <-chan struct{}) bool {
	r := &e.lead
	now := int64(time.Since(epoch))
	often := now-r.last.Swap(now) < int64(soon)
	switch {
	case e.asleep.Load() > 0:
		r.streak.Store(handedBack)
		return false
	case r.reading.CompareAndSwap(readAway, readWaiter):
		if done == r.done && late == r.late {
			return true
		}
		e.handBack()
		return false
	case !often:
		r.streak.Store(min(r.streak.Load(), 0))
		return false
	case r.streak.Add(1) < evictAfter || !r.reading.CompareAndSwap(readPoller, readEvicted):
		return false
	}
	r.done, r.late = done, late
	e.channel.Interrupt()
	<-r.handover
	r.reading.Store(readWaiter)
	return true
}

// handBack makes the poller read.
// Preconditions: the caller reads.
func (e *shard) handBack() {
	e.lead.streak.Store(handedBack)
	e.lead.reading.Store(readFree)
	wake(e.lead.promote)
}

// promote makes the poller read if no goroutine does.
func (e *shard) promote() {
	if e.lead.reading.CompareAndSwap(readAway, readFree) {
		wake(e.lead.promote)
	}
}

// kick lets a goroutine look again that reads and waits for ch.
func (e *shard) kick(ch *chan struct{}) {
	if e.lead.asleep.Load() == ch {
		e.channel.Interrupt()
	}
}

// read polls, and reads events, until ch has a token, and reports whether it took that. ch is one that kick is called
// for.
// Preconditions: the caller reads.
func (e *shard) read(b bound, ch *chan struct{}) (done bool) {
	for {
		seen := e.cq.Events()
		if e.tryTurn() {
			e.baton.turns++
			done, err := e.pollFor(*ch)
			if err != nil {
				leave(e.pollTurn)
				e.eng.failAll(err)
				break
			}
			if done {
				e.goAway()
				return true
			}
			e.leaveTurn()
		} else if len(*ch) > 0 || b.Expired() != nil {
			break
		}
		if err := e.readEvents(b, ch, seen); err != nil {
			e.eng.failAll(err)
			break
		}
		if b.Expired() != nil {
			break
		}
	}
	e.handBack()
	return false
}

// pollFor is arm for the reader: it ends when ch has a token, and reports whether it took it.
// Preconditions: the caller has pollTurn.
func (e *shard) pollFor(ch chan struct{}) (done bool, err error) {
	e.away.Store(false)
	for patient := true; ; {
		n, err := e.pollSome()
		if err != nil {
			return false, err
		}
		select {
		case <-ch:
			return true, nil
		default:
		}
		switch {
		case n > 0:
		case e.armed():
			return false, nil
		case patient:
			patient = false
			yield() // while the peer works, more comes
		default:
			e.baton.events = e.cq.Events()
			if err := e.cq.Arm(false); err != nil {
				return false, err
			}
			e.baton.armed = true
		}
	}
}

// readEvents sleeps until there were other events than seen, or ch or b may have ended the wait. The caller counts as a
// goroutine that waits, so that a goroutine that polls meanwhile arms the CQ.
// Preconditions: the caller reads.
func (e *shard) readEvents(b bound, ch *chan struct{}, seen uint32) (err error) {
	e.asleep.Add(1)
	e.lead.asleep.Store(ch)
	e.rearm()
	if len(*ch) == 0 && e.cq.Events() == seen && b.Expired() == nil {
		e.stat.wakes.Add(1)
		err = e.channel.ReadEvents()
	}
	e.lead.asleep.Store(nil)
	e.asleep.Add(-1)
	return err
}

// goAway releases pollTurn when the caller's wait is over.
// Preconditions: the caller reads, and has pollTurn.
func (e *shard) goAway() {
	if e.asleep.Load() > 0 {
		e.handOn(false)
		e.handBack()
		return
	}
	if !e.armed() {
		e.away.Store(true)
	}
	e.lookLater()
	e.leaveTurn()
	e.lead.reading.Store(readAway)
	if e.asleep.Load() > 0 {
		e.rearm()
	}
}
