package rdma

import (
	"context"
	"runtime"
	"time"
)

// The completions of a shard are taken by one goroutine at a time: the one that has pollTurn. Normally this is the
// poller, which sleeps until the device raises an event. A goroutine that waits for the peer's reply polls instead
// while it waits, which saves it two wake-ups and the device an event. When that goroutine leaves, there are two cases.
// Either the CQ is armed, and the poller sleeps until there is an event. Or the goroutine is away: it will be back
// soon, no other goroutine waits, and a timer checks after absence whether it came back.

// absence is the longest time without a poll while the CQ is not armed and no goroutine waits.
const absence = time.Millisecond

// baton is the state that a polling goroutine leaves to the next one.
// Preconditions: pollTurn, except for away and asleep, which others may read.
type baton struct {
	armed   bool   // no completion was seen since the CQ was armed
	events  uint32 // that there had been before
	turns   uint32 // how often a goroutine that waits has polled
	looked  uint32 // turns, at the last look
	looking bool   // a look is to come
}

// pollSome polls once, and handles what is there.
// Preconditions: the caller has pollTurn.
func (e *shard) pollSome() (int, error) {
	n, err := e.cq.Poll(e.wcs)
	if n > 0 {
		e.baton.armed = false // an event has come, or is about to
		e.handle(e.wcs[:n])
	}
	return n, err
}

// handOnMost bounds the non-empty polls that a departing goroutine makes on behalf of others.
const handOnMost = 8

// arm handles the completions that are there, and ensures that later ones wake the poller. It returns false if it gave
// up after most polls with completions; a most of 0 means never.
// Preconditions: the caller has pollTurn.
func (e *shard) arm(most int) (done bool, err error) {
	e.away.Store(false)
	for patient := true; ; {
		switch n, err := e.pollSome(); {
		case err != nil:
			return false, err
		case n > 0:
			if most--; most == 0 {
				return false, nil
			}
		case e.armed():
			return true, nil
		case patient:
			patient = false
			runtime.Gosched() // while those that were woken work, more comes
		default:
			e.baton.events = e.cq.Events()
			if err := e.cq.Arm(false); err != nil {
				return false, err
			}
			e.baton.armed = true // and polls again: an event is only for what comes after
		}
	}
}

// armed reports whether the poller is woken by what comes. An event that was under way when the CQ was armed has undone
// that: the device takes no notice of an arming before it is read.
// Preconditions: the caller has pollTurn.
func (e *shard) armed() bool { return e.baton.armed && e.baton.events == e.cq.Events() }

// tryTurn takes pollTurn if it is free, and reports whether it did.
func (e *shard) tryTurn() bool {
	select {
	case e.pollTurn <- struct{}{}:
		return true
	default:
		return false
	}
}

// leaveTurn releases pollTurn. It then handles goroutines that have fallen asleep meanwhile, and an event that arrived
// after the check whether the CQ is armed, because the poller found the turn taken. If the poller waited for its turn
// instead, a goroutine that polls in a dialog would find it taken each time.
func (e *shard) leaveTurn() {
	armed, events := e.baton.armed && !e.away.Load(), e.baton.events
	leave(e.pollTurn)
	if e.asleep.Load() > 0 {
		e.rearm()
	}
	if armed && events != e.cq.Events() && e.tryTurn() {
		e.handOn(false)
	}
}

// poll handles a shard's completions until ctx ends, but for those that goroutines take that wait.
func (e *shard) poll(ctx context.Context, fail func(error)) {
	defer context.AfterFunc(ctx, e.channel.Interrupt)()
	for {
		seen := e.cq.Events()
		var err error
		if e.tryTurn() { // else the polling goroutine does it
			if !e.away.Load() {
				_, err = e.arm(0)
			}
			e.leaveTurn()
		}
		if err == nil {
			err = e.readOrWait(ctx, seen)
		}
		if err != nil {
			if ctx.Err() == nil {
				fail(err)
				<-ctx.Done()
			}
			return
		}
	}
}

// lookLater has look called after absence.
// Preconditions: the caller has pollTurn.
func (e *shard) lookLater() {
	if !e.baton.looking {
		e.baton.looking, e.baton.looked = true, e.baton.turns
		e.lookTimer.Reset(absence)
	}
}

// look is called after absence. It arms the CQ if no goroutine has polled meanwhile.
func (e *shard) look() {
	turn := e.tryTurn()
	away := e.away.Load() || e.lead.reading.Load() == readAway
	if turn && (!away || e.baton.turns == e.baton.looked) {
		e.baton.looking = false
		e.handOn(false)
		e.promote()
		return
	}
	e.mu.Lock()
	if !e.closed {
		e.lookTimer.Reset(absence)
	}
	e.mu.Unlock()
	if turn {
		e.baton.looked = e.baton.turns
		e.leaveTurn()
	}
}

// stopLooking ends all polling.
func (e *shard) stopLooking() {
	e.lookTimer.Stop()
	e.pollTurn <- struct{}{}
}

// waitData waits for the token of a connection's reader or writer. p, which may be nil, decides whether it polls
// meanwhile.
func (e *shard) waitData(b bound, ch *chan struct{}, p *patience) error {
	if b.Now || e.opt.Manual {
		return e.wait(b, *ch)
	}
	if p != nil && e.opt.Spin > 0 && p.spins() && e.tryTurn() {
		done, err := e.spin(b, *ch)
		e.handOn(done)
		p.learn(done)
		if done || err != nil {
			return err
		}
	}
	if e.leads(b.Ends()) && e.read(b, ch) {
		return nil
	}
	return e.wait(b, *ch)
}

// wait waits for ch.
func (e *shard) wait(b bound, ch <-chan struct{}) error {
	switch {
	case b.Now:
		return errWouldWait
	case e.opt.Manual:
		return e.waitManual(b, ch)
	}
	e.asleep.Add(1)
	defer e.asleep.Add(-1)
	e.rearm()
	e.stat.wakes.Add(1)
	return b.Wait(ch)
}

// spin polls until ch has a token, and reports whether it has.
// Preconditions: the caller has pollTurn.
func (e *shard) spin(b bound, ch <-chan struct{}) (done bool, err error) {
	e.baton.turns++
	start := time.Now()
	for {
		for range spinPolls {
			n, err := e.pollSome()
			if err != nil {
				e.eng.failAll(err)
				return false, nil // the connection has the error
			}
			if n == 0 {
				continue
			}
			select {
			case <-ch:
				return true, nil
			default:
				runtime.Gosched() // it was for others
			}
		}
		select {
		case <-ch:
			return true, nil
		default:
		}
		if err := b.Expired(); err != nil {
			return false, err
		}
		if time.Since(start) > e.opt.Spin {
			return false, nil
		}
		if runtime.GOMAXPROCS(0) == 1 {
			runtime.Gosched() // no other place lets goroutines run
		} else {
			yield()
		}
	}
}

// spinPolls is after how many polls without a completion others may have the processor: more than any adapter takes.
const spinPolls = 256

// handOn releases pollTurn. soon means that the caller is likely to poll again.
func (e *shard) handOn(soon bool) {
	if soon && e.asleep.Load() == 0 {
		if !e.armed() {
			e.away.Store(true)
			e.lookLater()
		}
		e.leaveTurn()
		return
	}
	done, err := e.arm(handOnMost)
	if !done && err == nil { // more and more comes for others: the caller has something else to do
		go func() {
			_, err := e.arm(0)
			e.handedOn(err)
		}()
		return
	}
	e.handedOn(err)
}

// handedOn releases pollTurn after arm.
func (e *shard) handedOn(err error) {
	if err != nil {
		leave(e.pollTurn)
		e.eng.failAll(err)
		return
	}
	e.leaveTurn()
}

// catchUp handles what has come, unless stop is closed before it is its turn.
func (e *shard) catchUp(stop <-chan struct{}) {
	if e.opt.Manual {
		_, _ = e.pollOnce() // an error is the connections'
		return
	}
	select {
	case e.pollTurn <- struct{}{}:
		e.handOn(false)
	case <-stop:
	}
}

// rearm arms the CQ if the last goroutine that polled did not, and makes the poller read events if no goroutine does. A
// goroutine that is polling now arms the CQ itself.
func (e *shard) rearm() {
	if e.away.Load() && e.tryTurn() {
		e.handOn(false)
	}
	e.promote()
}

// patience decides whether a goroutine polls while it waits: as long as the reply usually arrives before it would give
// up.
type patience struct {
	luck int // below 1: it seldom came
	idle int // waits without polling since the last try
}

const (
	luckMost  = 8
	trialEach = 16 // waits after which it polls once, whatever was before
)

func (p *patience) spins() bool {
	if p.luck > 0 {
		return true
	}
	p.idle++
	return p.idle >= trialEach
}

func (p *patience) learn(came bool) {
	p.idle = 0
	if came {
		p.luck = min(p.luck+1, luckMost)
	} else {
		p.luck = max(p.luck-2, 0)
	}
}
