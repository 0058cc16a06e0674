package progress

import "fmt"

// poller makes the steps of Run.
func (r *modelRun) poller(w world, add func(world)) {
	a := &w.actors[modelPoller]
	switch a.pc {
	case nHead:
		a.pc = nNotice
		if w.stopped || w.word.has(closed) {
			a.pc, a.read = nExit, false
		}
	case nExit:
		w.word, a.pc = w.word.close(), nExited
	case nExited:
		a.pc = pDone
		if w.word.reader() == evicted && r.wrong != evictedLeft {
			a.pc = nHand
		}
	case nNotice:
		n, took := w.word.notice(a.read)
		switch {
		case took:
			w.armed = w.armed && !a.read
			w.word = n
			a.cover(0, false, nCheck)
		case r.wrong == eventForgotten:
			a.pc = nCheck
		case r.wrong == pollerWaits || r.wrong == pollerWaits2:
			a.pc = nWait
		default:
			w.word, a.pc = n, nCheck
		}
		a.read = a.read && a.pc != nCheck
	case nWait: // of the mistakes: it waits for the turn
		if !w.word.free() {
			return
		}
		w.word |= taken
		a.pc = nHad
	case nHad:
		a.read = false
		if w.word.has(away) && (r.wrong == pollerWaits || w.word.sleepers() == 0) {
			w.word &^= taken | event
			a.pc = nCheck
			break
		}
		w.word &^= away
		w.armed = false
		a.cover(0, false, nCheck)
	case nCheck:
		a.pc, a.read = nIn, false
		if w.word.reader() == evicted {
			a.pc = nHand
		}
	case nIn:
		if w.broken {
			v := w
			v.actors[modelPoller].fail(false, nExit)
			add(v)
		}
		if w.intrd {
			v := w
			v.intrd = false
			v.actors[modelPoller].pc = nHead
			add(v)
		}
		if !w.there {
			return
		}
		w.there, a.read, a.pc = false, true, nHead
	case nHand:
		if w.eviction == 0 {
			return
		}
		w.watch, w.eviction, a.pc = w.eviction, 0, nHandOver
	case nHandOver:
		w.word, a.pc = w.word.handOver(), nHandedOver
	case nHandedOver:
		w.handover, a.pc = true, nStand
		if r.wrong == endsUnwatched {
			w.watch = 0
		}
	case nStand:
		if w.watch > 0 && w.expired[w.watch-1] {
			v := w
			v.watch, v.intrd = 0, true
			add(v)
		}
		if r.wrong == staleToken && w.word.reader() == poller { // it goes by the word, and the token is to come
			v := w
			v.watch, v.actors[modelPoller].pc, v.actors[modelPoller].read = 0, nNotice, true
			add(v)
		}
		if w.stopped {
			v := w
			v.watch, v.actors[modelPoller].pc, v.actors[modelPoller].read = 0, nHead, true
			add(v)
		}
		if !w.promote {
			return
		}
		w.promote, a.pc, a.read, w.watch = false, nHead, true, 0
	default:
		panic(fmt.Sprint("poller at ", a.pc))
	}
	add(w)
}

// look makes the steps of the timer's function.
func (r *modelRun) look(w world, add func(world)) {
	a := &w.actors[modelTimer]
	if a.pc != tLook {
		return
	}
	n, took, again := w.word.look()
	if w.word.has(taken) && w.word.has(away) { // only with some mistakes
		n, again = w.word, true
	}
	w.word, w.timer, a.pc = n, w.timer || again, tIdle
	if took {
		a.cover(1, false, tIdle)
	}
	add(w)
}

// catchUp makes the steps of CatchUp.
func (r *modelRun) catchUp(w world, i int, add func(world)) {
	a := &w.actors[i]
	switch a.pc {
	case kJoin:
		w.asked, w.need, a.pc = true, w.arrived, kAsk
	case kAsk:
		if w.word.has(closed) {
			a.pc = pDone
			break
		}
		n, took := w.word.ask()
		w.word, a.pc = n, kWait
		if took {
			a.cover(0, false, kWake)
		}
	case kWait:
		if !w.caught {
			return
		}
		a.pc = kWake
	case kWake:
		w.word, a.pc = w.word.wake(), pDone
	}
	add(w)
}
