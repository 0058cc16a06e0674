package progress

import "runtime"

// take takes the turn for a goroutine that waits, if it is free.
func (p *Progress) take() bool { return p.step(state.take) }

// notice is called by the reader when it comes back from reading. read reports whether there was an event.
func (p *Progress) notice(read bool) bool {
	for {
		s := p.load()
		n, took := s.notice(read)
		if n != s && !p.swap(s, n) {
			continue
		}
		if took && read {
			p.armed = false
		}
		return took
	}
}

// cover polls until the CQ is empty and armed, and returns the turn. After most polls with completions it passes the
// turn; a most of 0 means never. resign means that the caller reads, and stops.
// Preconditions: the turn.
func (p *Progress) cover(most int, resign bool) {
	for {
		more, err := p.drain(&most)
		if err != nil {
			p.fail(err, true)
			return
		}
		if more {
			p.pass(resign)
			return
		}
		if p.leaveCovered(resign) {
			return
		}
	}
}

// serve handles what has come for goroutines in CatchUp. Each loop that polls with the turn begins with it.
// Preconditions: the turn.
func (p *Progress) serve() error {
	if p.asked.Load() {
		return p.answer()
	}
	return nil
}

// answer ends the waits in CatchUp.
// Preconditions: the turn.
func (p *Progress) answer() error {
	asked := p.takeAsked()
	err := p.pollAll()
	if asked != nil {
		close(asked)
	}
	return err
}

// pollAll handles what has come by now. It does not wait until the CQ is empty: others may keep it full.
// Preconditions: no other goroutine polls.
func (p *Progress) pollAll() error {
	for left := p.src.Depth(); left > 0; {
		n, err := p.src.Poll()
		if n == 0 {
			return err
		}
		p.armed = false // an event has come, or is about to
		left -= n
	}
	return nil
}

// drain polls until the CQ is empty and armed. more means that it gave up: after *most polls with completions, or
// because the poller is to hand over and others keep the CQ full.
// Preconditions: the turn.
func (p *Progress) drain(most *int) (more bool, err error) {
	for patient := true; ; {
		if err := p.serve(); err != nil {
			return false, err
		}
		switch n, err := p.src.Poll(); {
		case err != nil:
			return false, err
		case n > 0:
			p.armed = false
			if *most == 1 || p.load().reader() == evicted { // the goroutine that evicts is to poll
				return true, nil
			}
			*most = max(*most-1, 0)
		case p.armed:
			return false, nil
		case patient:
			patient = false
			runtime.Gosched() // while those that were woken work, more comes
		default:
			if err := p.src.Arm(); err != nil {
				return false, err
			}
			p.armed = true // and polls again: an event is only for what comes after
		}
	}
}

// leaveCovered returns the turn, unless an event was read since: then the arming was undone, and left is false.
// Preconditions: the turn. The CQ was found empty after it was armed.
func (p *Progress) leaveCovered(resign bool) (left bool) {
	for {
		s := p.load()
		n, left, promote := s.cover(resign)
		if !left {
			p.armed = false
		}
		if !p.swap(s, n) {
			continue
		}
		if left {
			p.hasLeft(n, promote)
		}
		return left
	}
}

// rest returns the turn of a goroutine that is likely to be back soon, if no other one depends on it.
// Preconditions: the turn.
func (p *Progress) rest(reads bool) bool {
	for {
		s := p.load()
		if s.has(event) {
			p.armed = false
		}
		n, left, start := s.rest(p.armed, reads)
		if !left {
			return false
		}
		if !p.swap(s, n) {
			continue
		}
		if start {
			p.timer.Reset(Absence)
		}
		p.hasLeft(n, false)
		return true
	}
}

// pass returns the turn, and has the reader poll.
// Preconditions: the turn.
func (p *Progress) pass(resign bool) {
	for {
		s := p.load()
		n, promote := s.pass(resign)
		if !p.swap(s, n) {
			continue
		}
		p.hasLeft(n, promote)
		if !promote {
			p.src.Interrupt()
		}
		return
	}
}

// hasLeft does what comes after the turn was returned.
func (p *Progress) hasLeft(s state, promote bool) {
	if promote {
		Token(p.promote)
	}
	if s.has(closed) {
		close(p.left)
	}
}

// look is called by the timer.
func (p *Progress) look() {
	for {
		s := p.load()
		n, took, again := s.look()
		if !p.swap(s, n) {
			continue
		}
		switch {
		case took:
			p.cover(passAfter, false)
		case again:
			p.timer.Reset(Absence)
		}
		return
	}
}

// fail ends all polling because the source has failed. has reports whether the caller has the turn, which it returns.
func (p *Progress) fail(err error, has bool) {
	last := p.step(func(s state) (state, bool) {
		n := s.close()
		if has {
			n &^= taken
		}
		return n, has && s.has(closed)
	})
	if last {
		close(p.left)
	}
	if asked := p.takeAsked(); asked != nil {
		close(asked)
	}
	p.failed.Do(func() { p.opt.Fail(err) })
	p.src.Interrupt()
	Token(p.promote)
}

// Token leaves a token in a channel that has room for one.
func Token(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// ask returns a channel that is closed when what has come by now is handled.
func (p *Progress) ask() <-chan struct{} {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	if p.caught == nil {
		p.caught = make(chan struct{})
		p.asked.Store(true)
	}
	return p.caught
}

// takeAsked returns what is to be closed when what has come is handled, or nil.
func (p *Progress) takeAsked() (caught chan struct{}) {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	caught, p.caught = p.caught, nil
	p.asked.Store(false)
	return caught
}
