package progress

import "fmt"

// A model of the package: a poller, up to three goroutines that wait, the timer, the device, and contexts that end, in
// all orders of their steps. A step is one access to what several of them share. The transitions of the word are those
// of state.go itself; the rest follows progress.go, lead.go, spin.go and signal.go line by line. What those decide by
// time or luck (whether to poll, to lead or to sleep, and when to give up) the model decides in every way.

const (
	modelWaiters = 3
	modelPoller  = 3
	modelTimer   = 4
	modelActors  = 5
)

// Program counters, named after the next step.
const (
	pDone = iota

	cStart // cover
	cPoll
	cHand
	cToken
	cInterrupt
	cHanded
	cArm
	cEmpty
	cLeave
	cPass
	cPassed
	cPromote

	wTake // a goroutine that waits for messages
	wSignal
	wHow
	wSpin
	wSpun
	wRest
	wStart
	wSleep
	wPark
	wParked
	wToken
	wAwake
	wExpired
	wEvict
	wEvictInterrupt
	wHandover
	wHandedOver
	wEnds
	wRead
	wReadTake
	wReadHow
	wArm
	wReadRest
	wLeave
	wMark
	wLate
	wLook
	wIn
	wUnmark
	wNotice
	wReadSignal
	wReadExpired
	wResign
	wResigned

	kJoin // a goroutine in CatchUp
	kAsk
	kWait
	kWake

	nNotice // the poller
	nWait
	nHad
	nCheck
	nIn
	nHand
	nHandOver
	nHandedOver
	nStand

	tIdle // the timer
	tLook
)

// spinning and holding are the steps at which a goroutine has the turn.
func holding(a *modelActor) bool {
	switch {
	case a.pc >= cStart && a.pc <= cPass:
		return true
	case a.pc == wSpin || a.pc == wSpun || a.pc == wRest || a.pc == wEnds || a.pc == nHad:
		return true
	}
	return a.pc >= wRead && a.pc <= wLeave
}

type modelActor struct {
	pc, ret, then uint8 // ret: after completions were handled; then: after cover
	most, hand    uint8
	got           uint8
	read          bool // there was an event
	resign, asked bool
	batch         [modelWaiters]uint8
}

// world is a state of the model.
type world struct {
	word  state
	armed bool
	// The device.
	queue                     [modelWaiters]uint8 // completions, by whom they are for
	on, raising, there, intrd bool                // armed; an event is under way; it can be read; Interrupt was called

	signal   [modelWaiters]uint8
	ch       [modelWaiters]bool
	inbox    [modelWaiters]uint8
	expired  [modelWaiters]bool
	promote  bool
	handover bool
	eviction uint8 // 1 plus who evicts
	ends     uint8
	watch    uint8
	timer    bool

	asked, caught          bool
	arrived, handled, need uint8
	posts                  [modelWaiters]uint8 // to come

	actors [modelActors]modelActor
}

// modelRun is what there is in a run of the model, with mistakes that are in it on purpose.
type modelRun struct {
	posts   [modelWaiters]uint8 // messages for each goroutine; none: it is not there
	expires [modelWaiters]bool  // its context may end
	spins   [modelWaiters]bool
	leads   [modelWaiters]bool
	catches bool // the last is in CatchUp
	eager   bool // the device raises an event for what was there when it was armed

	wrong mistake
}

type mistake uint8

const (
	none           mistake = iota
	eventForgotten         // before 3b5d22d
	pollerWaits            // 3b5d22d to 605e8ae
	pollerWaits2           // 605e8ae to 36ef9c9
	staleToken             // before 0de88ea
	eventIgnored           // cover does not look for an event
	sleeperIgnored         // rest does not look for others
	readerIgnored          // rest does not look for a goroutine that reads
	neverPromoted          // the poller is not told
	notInterrupted         // Wake does not interrupt ReadEvents
	endsUnwatched          // the poller does not watch
	passUntold             // pass does not interrupt
	sleepUnarmed           // sleep does not cover
	timerForgotten         // rest does not start it
	lateMark               // a goroutine looks for a signal before it says that it reads
	parkLost               // Wake does not send to a goroutine that has parked
)

func (r *modelRun) first() world {
	w := world{word: 0, posts: r.posts, armed: true, on: true}
	for i := range r.posts {
		if r.posts[i] > 0 {
			w.actors[i].pc = wTake
		}
	}
	if r.catches {
		w.actors[modelWaiters-1].pc = kJoin
	}
	w.actors[modelPoller].pc = nIn
	w.actors[modelTimer].pc = tIdle
	return w
}

// cover begins cover for an actor, which goes on with then.
func (a *modelActor) cover(most uint8, resign bool, then uint8) {
	a.pc, a.most, a.resign, a.then = cStart, most, resign, then
}

// poll takes what is in the queue, and goes on with ret after it is handled; it reports whether there was something.
func (w *world) poll(a *modelActor, ret uint8) bool {
	if w.queue == [modelWaiters]uint8{} {
		return false
	}
	a.batch, w.queue = w.queue, [modelWaiters]uint8{}
	a.pc, a.ret, a.hand = cHand, ret, 0
	w.armed = false
	return true
}

func (w *world) arm(r *modelRun) {
	if !w.there && !w.raising {
		w.on = true
		if r.eager && w.queue != [modelWaiters]uint8{} {
			w.on, w.raising = false, true
		}
	}
	w.armed = true
}

// take takes a signal.
func (w *world) take(i int) bool {
	if w.signal[i] != uint8(token) {
		return false
	}
	w.signal[i] = uint8(idle)
	return true
}

// common makes the steps of cover, which all actors share, and reports whether a was there.
func (r *modelRun) common(w world, i int, add func(world)) bool {
	a := &w.actors[i]
	switch a.pc {
	case cStart:
		if a.pc = cPoll; w.asked {
			w.asked, a.asked, a.most = false, true, 0
		}
	case cPoll:
		if !w.poll(a, cHanded) {
			a.pc = cArm
			if w.armed {
				a.pc = cEmpty
			}
		}
	case cArm:
		w.arm(r)
		a.pc = cPoll
	case cHand: // Wake, after the message was put where its goroutine looks
		for a.hand < modelWaiters && a.batch[a.hand] == 0 {
			a.hand++
		}
		k := a.hand
		w.inbox[k] += a.batch[k]
		w.handled += a.batch[k]
		a.batch[k] = 0
		switch uint32(w.signal[k]) {
		case parked:
			a.pc = cToken
		case reading:
			a.pc = cInterrupt
		}
		w.signal[k] = uint8(token)
	case cToken:
		if r.wrong != parkLost {
			w.ch[a.hand] = true
		}
		a.pc = cHand
	case cInterrupt:
		w.intrd = w.intrd || r.wrong != notInterrupted
		a.pc = cHand
	case cEmpty:
		a.asked, w.caught, a.pc = false, true, cLeave
	case cLeave:
		before := w.word
		if r.wrong == eventIgnored {
			before &^= event
		}
		n, left, promote := before.cover(a.resign)
		w.word = n
		switch {
		case !left:
			w.armed, a.pc = false, cStart
		case promote:
			a.pc = cPromote
		default:
			a.finish()
		}
	case cPass:
		n, promote := w.word.pass(a.resign)
		w.word, a.pc = n, cPassed
		if promote {
			a.pc = cPromote
		}
	case cPassed:
		w.intrd = w.intrd || r.wrong != passUntold
		a.finish()
	case cPromote:
		w.promote = w.promote || r.wrong != neverPromoted
		a.finish()
	default:
		return false
	}
	add(w)
	return true
}

func (a *modelActor) finish() { a.pc, a.resign, a.most, a.then = a.then, false, 0, 0 }

// settle makes the steps of an actor that touch nothing shared, at once, after another one.
func (r *modelRun) settle(w *world, a *modelActor) {
	for {
		switch {
		case a.pc == cStart && !r.catches:
			a.pc = cPoll
		case a.pc == cHand && a.batch == [modelWaiters]uint8{}:
			a.pc, a.ret, a.hand = a.ret, 0, 0
		case a.pc == cHanded:
			a.pc = cPoll
			if a.most > 0 {
				if a.most--; a.most == 0 {
					a.pc = cPass
				}
			}
		case a.pc == cEmpty && !a.asked:
			a.pc = cLeave
		case a.pc == wReadHow:
			a.pc = wArm
			if w.armed {
				a.pc = wLeave
			}
		default:
			return
		}
	}
}

// poller makes the steps of Run.
func (r *modelRun) poller(w world, add func(world)) {
	a := &w.actors[modelPoller]
	switch a.pc {
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
		if w.intrd {
			v := w
			v.intrd = false
			v.actors[modelPoller].pc = nNotice
			add(v)
		}
		if !w.there {
			return
		}
		w.there, a.read, a.pc = false, true, nNotice
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
		if !w.promote {
			return
		}
		w.promote, a.pc, a.read, w.watch = false, nNotice, true, 0
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
