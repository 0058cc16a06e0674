package progress

// A model of the package: a poller, up to three goroutines that wait, the timer, the device, and contexts that end, in
// all orders of their steps. A step is one access to what several of them share. The transitions of the word are those
// of state.go itself; the rest follows progress.go, lead.go, spin.go and signal.go line by line. What those decide by
// time or luck (whether to poll, to lead or to sleep, and when to give up) the model decides in every way.

const (
	modelWaiters = 3
	modelPoller  = 3
	modelTimer   = 4
	modelEnd     = 5 // of the connections
	modelActors  = 6
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
	wBroken
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

	nHead
	nExit
	nExited

	tIdle // the timer
	tLook

	fClose // fail
	fAsked
	fTell
	fInterrupt
	fPromote
)

// spinning and holding are the steps at which a goroutine has the turn.
func holding(a *modelActor) bool {
	switch {
	case a.ret == fInterrupt: // it has left
		return false
	case a.pc >= cStart && a.pc <= cPass:
		return true
	case a.pc == fClose:
		return a.has
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
	has           bool // fail is called with the turn
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

	broken, gone, stopped, told bool // the source; the connections; Run's context; Fail was called

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
	breaks  bool // the source may fail
	stops   bool // Run's context may end, after all connections have

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
	evictedLeft            // Run ends without a reply to a goroutine that evicts
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
		if w.broken {
			w.caught, a.asked = w.caught || a.asked, false
			a.fail(true, a.then)
			break
		}
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

	case fClose:
		w.word = w.word.close()
		if a.has {
			w.word &^= taken
		}
		a.pc, a.has = fAsked, false
	case fAsked:
		w.caught, w.asked, a.pc = w.caught || w.asked, false, fTell
	case fTell:
		a.pc = fInterrupt
		if !w.told {
			w.told, w.gone = true, true
			a.pc, a.ret, a.batch = cHand, fInterrupt, [modelWaiters]uint8{1, 1, 1}
		}
	case fInterrupt:
		w.intrd, a.pc = true, fPromote
	case fPromote:
		w.promote = true
		a.finish()
	default:
		return false
	}
	add(w)
	return true
}

// fail begins fail for an actor, which goes on with then.
func (a *modelActor) fail(has bool, then uint8) {
	a.resign, a.most, a.pc, a.has, a.then = false, 0, fClose, has, then
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
		case a.pc == nHead && !r.breaks && !r.stops:
			a.pc = nNotice
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
