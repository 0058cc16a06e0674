package progress

import "fmt"

// waiter makes the steps of a goroutine that takes its messages, and calls WaitSignal while there is none.
func (r *modelRun) waiter(w world, i int, add func(world)) {
	a := &w.actors[i]
	// also adds a variant, for what is decided by time or luck.
	also := func(change func(w *world, a *modelActor)) {
		v := w
		change(&v, &v.actors[i])
		add(v)
	}
	switch a.pc {
	case wTake: // with the connection's lock
		a.pc = wSignal
		if w.gone {
			a.pc = pDone
			break
		}
		if w.inbox[i] > 0 {
			w.inbox[i]--
			a.pc = wTake
			if a.got++; a.got == r.posts[i] {
				a.pc = pDone
			}
		}
	case wSignal:
		a.pc = wHow
		if w.take(i) {
			a.pc = wTake
		}
	case wHow:
		if n, took := w.word.take(); took && r.spins[i] {
			also(func(w *world, a *modelActor) { w.word, a.pc = n, wSpin })
		}
		if n, ok := w.word.evict(); ok && r.leads[i] {
			also(func(w *world, a *modelActor) { w.word, a.pc = n, wEvict })
		}
		if n, ok := w.word.lead(); ok && r.leads[i] {
			also(func(w *world, a *modelActor) { w.word, a.pc = n, wEnds })
		}
		a.pc = wSleep

	case wSpin:
		if w.broken {
			a.fail(true, wSleep)
			break
		}
		also(func(w *world, a *modelActor) { a.cover(1, false, wSleep) }) // it gives up
		if w.expired[i] {
			also(func(w *world, a *modelActor) { a.cover(1, false, pDone) })
		}
		if !w.poll(a, wSpun) {
			if a.pc = wSpun; w.signal[i] != uint8(token) {
				return
			}
		}
	case wSpun:
		a.pc = wSpin
		if w.take(i) {
			a.pc = wRest
		}
	case wRest, wReadRest:
		s := w.word
		if r.wrong == sleeperIgnored {
			s &= sleeperBit - 1
		}
		if r.wrong == readerIgnored && s.reader() == waiter && a.pc == wRest {
			s = s.read(poller)
		}
		n, left, start := s.rest(w.armed, a.pc == wReadRest)
		if !left {
			a.cover(1, a.pc == wReadRest, wTake)
			break
		}
		if s.has(event) {
			w.armed = false
		}
		if r.wrong == sleeperIgnored {
			n |= w.word &^ (sleeperBit - 1)
		}
		if r.wrong == readerIgnored && w.word.reader() == waiter && a.pc == wRest {
			n = n.read(waiter)
		}
		w.word, a.pc = n, wTake
		if start {
			a.pc = wStart
		}
	case wStart:
		w.timer = r.wrong != timerForgotten
		a.pc = wTake

	case wSleep:
		n, took := w.word.sleep()
		if r.wrong == sleepUnarmed {
			n, took = w.word+sleeperBit, false
		}
		w.word, a.pc = n, wPark
		if took {
			a.cover(1, false, wPark)
		}
	case wPark:
		a.pc = wParked
		if w.signal[i] == uint8(idle) {
			w.signal[i] = uint8(parked)
		} else {
			w.signal[i], a.pc = uint8(idle), wAwake
		}
	case wParked:
		if w.expired[i] {
			also(func(w *world, a *modelActor) {
				if a.pc = wToken; w.signal[i] == uint8(parked) {
					w.signal[i], a.pc = uint8(idle), wExpired
				}
			})
		}
		if !w.ch[i] {
			return
		}
		w.ch[i], w.signal[i], a.pc = false, uint8(idle), wAwake
	case wToken:
		if !w.ch[i] {
			return
		}
		w.ch[i], w.signal[i], a.pc = false, uint8(idle), wAwake
	case wAwake, wExpired:
		w.word = w.word.wake()
		if a.pc == wAwake {
			a.pc = wTake
		} else {
			a.pc = pDone
		}

	case wEvict:
		w.eviction, a.pc = uint8(i+1), wEvictInterrupt
	case wEvictInterrupt:
		w.intrd, a.pc = true, wHandover
	case wHandover:
		if !w.handover {
			return
		}
		w.handover, w.ends, a.pc = false, uint8(i+1), wHandedOver
	case wHandedOver:
		n, took := w.word.take()
		w.word, a.pc = n, wMark
		if took {
			a.pc = wRead
		}
	case wEnds:
		a.pc = wRead
		if w.ends != uint8(i+1) {
			a.cover(1, true, wSleep)
		}
	case wRead:
		if w.broken {
			a.fail(true, wSleep)
			break
		}
		if !w.poll(a, wReadTake) {
			a.pc = wReadHow
			if w.take(i) {
				a.pc = wReadRest
			}
		}
	case wReadTake:
		a.pc = wRead
		if w.take(i) {
			a.pc = wReadRest
		}
	case wArm:
		w.arm(r)
		a.pc = wRead
	case wLeave:
		if w.expired[i] {
			also(func(_ *world, a *modelActor) { a.cover(1, true, wSleep) })
		}
		n, left, _ := w.word.cover(false)
		w.word, a.pc = n, wMark
		if !left {
			w.armed, a.pc = false, wRead
		}
	case wMark:
		a.pc, a.read = wLook, false
		switch {
		case w.signal[i] != uint8(idle):
			a.pc = wNotice
		case r.wrong == lateMark:
			a.pc = wLate
		default:
			w.signal[i] = uint8(reading)
		}
	case wLate:
		w.signal[i], a.pc = uint8(reading), wLook
	case wLook:
		a.pc = wIn
		if w.expired[i] {
			a.pc = wUnmark
		}
	case wIn:
		if w.broken {
			also(func(w *world, a *modelActor) { a.pc = wBroken })
		}
		if w.intrd {
			also(func(w *world, a *modelActor) { w.intrd, a.pc = false, wUnmark })
		}
		if !w.there {
			return
		}
		w.there, a.read, a.pc = false, true, wUnmark
	case wBroken:
		if w.signal[i] == uint8(reading) {
			w.signal[i] = uint8(idle)
		}
		a.fail(false, wSleep)
	case wUnmark:
		if w.signal[i] == uint8(reading) {
			w.signal[i] = uint8(idle)
		}
		a.pc = wNotice
	case wNotice:
		n, took := w.word.notice(a.read)
		w.word, a.pc = n, wReadSignal
		if took {
			w.armed = w.armed && !a.read
			a.pc = wRead
		}
		a.read = false
	case wReadSignal:
		a.pc = wReadExpired
		if w.take(i) {
			a.pc, a.then = wResign, wTake
		}
	case wReadExpired:
		a.pc = wMark
		if w.expired[i] || w.word.has(closed) {
			a.pc, a.then = wResign, wSleep
		}
	case wResign:
		w.word, a.pc = w.word.resign(), wResigned
	case wResigned:
		w.promote, a.pc, a.then = w.promote || r.wrong != neverPromoted, a.then, 0
	default:
		panic(fmt.Sprint("waiter at ", a.pc))
	}
	add(w)
}
