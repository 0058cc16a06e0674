package progress

import "runtime"

// take takes the turn for a goroutine that waits, if it is free.
func (p *Progress) take() bool {
	for {
		s := p.load()
		n, ok := s.take()
		if !ok || p.swap(s, n) {
			return ok
		}
	}
}

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
		asked := p.takeAsked()
		if asked != nil {
			most = 0
		}
		more, err := p.drain(&most)
		if asked != nil {
			close(asked)
		}
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

// drain polls until the CQ is empty and armed. more means that it gave up after *most polls with completions.
// Preconditions: the turn.
func (p *Progress) drain(most *int) (more bool, err error) {
	for patient := true; ; {
		switch n, err := p.src.Poll(); {
		case err != nil:
			return false, err
		case n > 0:
			p.armed = false // an event has come, or is about to
			if *most == 0 {
				continue
			}
			if *most--; *most == 0 {
				return true, nil
			}
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
			p.timer.Reset(absence)
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
		token1(p.promote)
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
			p.timer.Reset(absence)
		}
		return
	}
}

// fail ends all polling because the source has failed. has reports whether the caller has the turn, which it returns.
func (p *Progress) fail(err error, has bool) {
	for {
		s := p.load()
		n := s.close()
		if has {
			n &^= taken
		}
		if !p.swap(s, n) {
			continue
		}
		if has && s.has(closed) {
			close(p.left)
		}
		break
	}
	if asked := p.takeAsked(); asked != nil {
		close(asked)
	}
	p.failed.Do(func() { p.opt.Fail(err) })
	p.src.Interrupt()
	token1(p.promote)
}

// token1 leaves a token in a channel that has room for one.
func token1(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// ask returns a channel that is closed when the CQ was found empty after this.
func (p *Progress) ask() <-chan struct{} {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	if p.caught == nil {
		p.caught = make(chan struct{})
		p.asked.Store(true)
	}
	return p.caught
}

// takeAsked returns what is to be closed when the CQ was found empty, or nil.
func (p *Progress) takeAsked() (caught chan struct{}) {
	if !p.asked.Load() {
		return nil
	}
	p.askMu.Lock()
	defer p.askMu.Unlock()
	caught, p.caught = p.caught, nil
	p.asked.Store(false)
	return caught
}
