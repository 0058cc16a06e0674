package progress

import (
	"maps"

	"github.com/pureverbs/pureverbs/internal/testutil/steps"
)

type (
	machine   = steps.Machine[world]
	primitive = steps.Primitive[world]
	value     = steps.Value
	effect    func(m *machine, in []value) value // and the result, if there is one
	operators map[string]primitive
)

// shared is an operation that begins a step.
func shared(do effect) primitive {
	return primitive{Do: func(m *machine, in, out []value) bool {
		if v := do(m, in); len(out) > 0 {
			out[0] = v
		}
		return true
	}}
}

// local is one that does not.
func local(do effect) primitive {
	p := shared(do)
	p.Local = true
	return p
}

// is is a local operation with one result.
func is(v value) primitive { return local(func(*machine, []value) value { return v }) }

// after is an operation that belongs to the step of another one, if it comes right after it.
func after(name string, do effect) primitive {
	p := shared(do)
	p.Joins = func(m *machine, _ []value) bool { return m.Last == name }
	return p
}

// sharedIf is a local operation in runs in which its result does not change.
func sharedIf(changes bool, do effect) primitive {
	p := shared(do)
	p.Local = !changes
	return p
}

// model returns what the goroutines of a run share, and what they do to it.
func (r *modelRun) model() *steps.Model[world] {
	m := &steps.Model[world]{
		Calls: map[string]string{"Source.Poll": "modelPoll", "Options.Fail": "modelFail"},
		Consts: map[string]value{
			"Progress.promote": chPromote, "Progress.eviction": chEviction, "Progress.handover": chHandover,
			"Progress.left": chLeft, "Progress.manual": 1, "Progress.polling": 2, "turn.Turn.most": 1,
			"Progress.open": runContext, "Progress.src": 1, "Progress.timer": 1, "Signal.p": 1, "model": 1,
			"Options.Manual": steps.Bool(r.manual), "spinPolls": 1, "passAfter": 1, "epoch": 0,
			"ErrStopped": errModelOther, "os.ErrDeadlineExceeded": errModelLate, "turn.ErrWouldWait": errModelOther,
		},
		Ready: ready, Pass: pass, Close: closeChannel, Primitives: make(map[string]primitive),
	}
	for _, o := range []operators{r.luck(), r.turns(), r.source(), signals(), r.catchUp(), manuals(), r.ends(),
		r.environment()} {
		maps.Copy(m.Primitives, o)
	}
	return m
}

// luck has what depends on time or luck, and what nobody sees.
func (r *modelRun) luck() operators {
	streak := value(0)
	if r.leads {
		streak = steps.Any
	}
	nothing := is(0)
	return operators{
		"yield": nothing, "runtime.Gosched": nothing, "runtime.GOMAXPROCS": is(2),
		"time.Now": is(steps.Any), "time.Since": is(steps.Any), "time.Sleep": nothing,
		"Progress.Wakes.Add": nothing, "Progress.Turns.Add": nothing,
		"Progress.opt":   is(steps.Pack(0, 1, 1)), // Spin is 1
		"Patience.spins": is(steps.Any), "Patience.learn": nothing,
		"Progress.last.Swap": is(steps.Any), "Progress.streak.Load": nothing, "Progress.streak.Store": nothing,
		"Progress.streak.Add": is(streak),
	}
}

// turns has the word, and what belongs to the turn.
func (r *modelRun) turns() operators {
	return operators{
		"Progress.state.Load": shared(func(m *machine, _ []value) value { return value(m.World.word) }),
		"Progress.state.Add": shared(func(m *machine, in []value) value {
			m.World.word += state(in[1])
			return value(m.World.word)
		}),
		// Each has a Load of its own.
		"Progress.state.CompareAndSwap": after("Progress.state.Load", func(m *machine, in []value) value {
			if m.World.word != state(in[1]) {
				return 0
			}
			r.setWord(m, state(in[2]))
			return 1
		}),
		"Progress.armed": local(func(m *machine, _ []value) value {
			r.needsTurn(m, "reads armed")
			return steps.Bool(m.World.armed)
		}),
		"Progress.armed=": local(func(m *machine, in []value) value {
			r.needsTurn(m, "sets armed")
			m.World.armed = in[1] != 0
			return 0
		}),
		"Progress.ends":  local(func(m *machine, _ []value) value { return value(m.World.ends) }),
		"Progress.ends=": local(func(m *machine, in []value) value { m.World.ends = uint16(in[1]); return 0 }),
		"time.Timer.Reset": shared(func(m *machine, _ []value) value {
			m.World.timer = true
			return 0
		}),
		"time.Timer.Stop": shared(func(m *machine, _ []value) value { m.World.timer = false; return 0 }),
	}
}

// needsTurn reports it if the goroutine does what belongs to the turn without having it, or after Stop.
func (r *modelRun) needsTurn(m *machine, what string) {
	used(m, what)
	if (!r.manual || m.World.users[1] == 0) && m.World.holder != uint8(m.Actor+1) {
		m.Fail("it %s without the turn", what)
	}
}

// used reports it if Stop is over.
func used(m *machine, what string) {
	if m.World.stopped {
		m.Fail("it %s after Stop", what)
	}
}

// setWord changes the word, and records which actor has the turn.
func (r *modelRun) setWord(m *machine, s state) {
	w := m.World
	switch had := w.word.has(taken); {
	case had && !s.has(taken):
		r.needsTurn(m, "returns it")
		w.holder = 0
	case !had && s.has(taken):
		w.holder = uint8(m.Actor + 1)
	}
	w.word = s
}

// source has the CQ. How it is polled has the environment.
func (r *modelRun) source() operators {
	return operators{
		"Source.Depth": shared(func(m *machine, _ []value) value { // at least as many as there are
			if m.World.queue == (posts{}) {
				return value(m.Choose(2))
			}
			return 3
		}),
		"Source.Arm": shared(func(m *machine, _ []value) value {
			w := m.World
			if used(m, "arms"); !r.manual {
				r.needsTurn(m, "arms")
			}
			switch {
			case w.broken:
				return errModelBroken
			case w.there || w.raising:
			case r.eager && w.queue != posts{}:
				w.on, w.raising = false, true
			default:
				w.on = true
			}
			return 0
		}),
		"Source.Events": local(func(m *machine, _ []value) value {
			if r.manual {
				return value(m.World.events)
			}
			read := m.World.read // since the call before
			m.World.read = false
			return steps.Bool(read)
		}),
		"Source.ReadEvents": {Do: r.readEvents},
		"Source.Interrupt":  shared(func(m *machine, _ []value) value { m.World.intrd = true; return 0 }),
		"Source.WaitEvent": {Do: func(m *machine, in, out []value) bool {
			used(m, "waits")
			came := value(m.World.events) != in[3]
			ended := m.World.isClosed(contextChannel(in[1])) || m.World.isClosed(contextChannel(in[2]))
			if out[0] = errModelDone; came && (!ended || m.Choose(2) == 0) {
				out[0] = 0
			}
			return came || ended
		}},
	}
}

// readEvents is Source.ReadEvents.
func (r *modelRun) readEvents(m *machine, _, out []value) bool {
	const (
		fails = iota
		interrupted
		event
	)
	w := m.World
	var can []int
	if w.broken && !r.deaf {
		can = append(can, fails)
	}
	if w.intrd {
		can = append(can, interrupted)
	}
	if w.there {
		can = append(can, event)
	}
	if can == nil {
		return false
	}
	switch out[0] = 0; can[m.Choose(len(can))] {
	case fails:
		out[0] = errModelBroken
	case interrupted:
		w.intrd = false
	case event:
		w.there, w.read = false, true
	}
	return true
}

// signals has Signals.
func signals() operators {
	at := func(m *machine, in []value) *uint8 { return &m.World.signal[in[0]-1] }
	swap := func(m *machine, in []value) value {
		s := at(m, in)
		if *s != uint8(in[1]) {
			return 0
		}
		*s = uint8(in[2])
		return 1
	}
	compareAndSwap := shared(swap)
	compareAndSwap.Joins = func(m *machine, in []value) bool { // in Take
		return m.Last == "Signal.state.Load" && in[1] == value(token)
	}
	return operators{
		"Signal.ch":  local(func(_ *machine, in []value) value { return chSignal + in[0] - 1 }), // it was made before
		"Signal.ch=": is(0),
		// In Wake. The connection, which is locked, has what it wakes for.
		"Signal.state.Load": after("environment.handle", func(m *machine, in []value) value {
			return value(*at(m, in))
		}),
		"Signal.state.Store": shared(func(m *machine, in []value) value { *at(m, in) = uint8(in[1]); return 0 }),
		// In Wake: that the Load found a token has the same effect.
		"Signal.state.Swap": after("Signal.state.Load", func(m *machine, in []value) value {
			s := at(m, in)
			old := value(*s)
			*s = uint8(in[1])
			return old
		}),
		"Signal.state.CompareAndSwap": compareAndSwap,
	}
}

// catchUp has goroutines in CatchUp, and Options.Fail, which is called once.
func (r *modelRun) catchUp() operators {
	asks := false
	for _, what := range r.does {
		asks = asks || what == catches
	}
	return operators{
		"Progress.askMu.Lock": {Do: func(m *machine, _, _ []value) bool {
			if m.World.asking {
				return false
			}
			m.World.asking = true
			m.Hold()
			return true
		}},
		"Progress.askMu.Unlock": local(func(m *machine, _ []value) value {
			if !m.World.asking {
				m.Fail("it unlocks askMu, which is not locked")
			}
			m.World.asking = false
			m.Release()
			return 0
		}),
		"Progress.asked.Load": sharedIf(asks, func(m *machine, _ []value) value { return steps.Bool(m.World.asked) }),
		"Progress.asked.Store": shared(func(m *machine, in []value) value {
			m.World.asked = in[1] != 0
			return 0
		}),
		"Progress.caught":  shared(func(m *machine, _ []value) value { return value(m.World.caught) }),
		"Progress.caught=": shared(func(m *machine, in []value) value { m.World.caught = uint8(in[1]); return 0 }),
		"make(chan)": shared(func(m *machine, _ []value) value {
			m.World.made++
			return chCaught + value(m.World.made) - 1
		}),
		"Progress.failed.DoBegin": {Do: func(m *machine, _, out []value) bool {
			once := &m.World.once
			if *once == 1 {
				return false
			}
			if out[0] = steps.Bool(*once == 0); *once == 0 {
				*once = 1
			}
			return true
		}},
		"Progress.failed.DoEnd": shared(func(m *machine, _ []value) value { m.World.once = 2; return 0 }),
	}
}

// manuals has the turns of a manual Progress.
func manuals() operators {
	at := func(m *machine, in []value) *int8 { return &m.World.users[in[0]-1] }
	return operators{
		"turn.Turn.next":       local(func(_ *machine, in []value) value { return chNext + in[0] - 1 }),
		"turn.Turn.users.Load": shared(func(m *machine, in []value) value { return value(*at(m, in)) }),
		"turn.Turn.users.Add": shared(func(m *machine, in []value) value {
			n := at(m, in)
			*n += int8(in[1])
			return value(*n)
		}),
		// Each has a Load of its own.
		"turn.Turn.users.CompareAndSwap": after("turn.Turn.users.Load", func(m *machine, in []value) value {
			n := at(m, in)
			if *n != int8(in[1]) {
				return 0
			}
			*n = int8(in[2])
			return 1
		}),
	}
}

// runContext is the context of Run, or what Stop of a manual Progress ends. Those of goroutines have smaller numbers.
const runContext = modelWaiters + 1

// contextChannel returns the channel of a context.
func contextChannel(ctx value) value {
	if ctx == runContext {
		return chRun
	}
	return chDone + ctx - 1
}

// ends has contexts and deadlines.
func (r *modelRun) ends() operators {
	isClosed := shared(func(m *machine, in []value) value { return steps.Bool(m.World.isClosed(in[0])) })
	isClosed.Joins = func(_ *machine, in []value) bool { return in[0] == 0 } // a nil channel
	return operators{
		"context.Context.Err": sharedIf(r.stops || r.expires != bools{}, func(m *machine, in []value) value {
			return steps.Bool(m.World.isClosed(contextChannel(in[0]))) * errModelDone
		}),
		"context.Context.Done": local(func(_ *machine, in []value) value { return contextChannel(in[0]) }),
		"context.AfterFunc":    local(func(m *machine, _ []value) value { m.World.hooked = true; return 0 }),
		"Progress.end":         shared(func(m *machine, _ []value) value { m.World.closed |= 1 << chRun; return 0 }),
		"deadline.Deadline.Past": sharedIf(r.late != bools{}, func(m *machine, in []value) value {
			return chLate + 2*(in[0]-1) + steps.Bool(m.World.moved[in[0]-1])
		}),
		"deadline.IsClosed": isClosed,
	}
}

func (w *world) isClosed(ch value) bool { return w.closed>>ch&1 == 1 }

// ready reports whether a channel takes a value, or has one.
func ready(m *machine, ch value, send bool) bool {
	w, bit := m.World, uint32(1)<<ch
	if send {
		return buffered&bit != 0 && w.full&bit == 0
	}
	return (w.full|w.closed)&bit != 0
}

// pass sends or receives.
func pass(m *machine, ch value, send bool, v value) value {
	w, bit := m.World, uint32(1)<<ch
	if send {
		if w.full |= bit; ch == chEviction {
			w.evicts = uint16(v)
		}
		return 0
	}
	if w.full &^= bit; ch == chEviction {
		v, w.evicts = value(w.evicts), 0
	}
	return v
}

func closeChannel(m *machine, ch value) {
	if m.World.isClosed(ch) {
		m.Fail("a channel is closed twice")
	}
	m.World.closed |= 1 << ch
}

// environment has what the model's own goroutines do.
func (r *modelRun) environment() operators {
	return operators{
		"environment.receive": shared(func(m *machine, in []value) value {
			w, i := m.World, in[1]
			w.got[i] += w.inbox[i]
			w.inbox[i] = 0
			return steps.Bool(!w.gone && w.got[i] < r.posts[i])
		}),
		"environment.begin": shared(func(m *machine, in []value) value {
			m.World.need[in[1]] = m.World.open
			return 0
		}),
		"environment.caughtUp": local(func(m *machine, in []value) value {
			w := m.World
			if w.need[in[1]] != (posts{}) && !w.broken && !w.word.has(closed) {
				m.Fail("CatchUp is over before what had come was handled")
			}
			w.need[in[1]] = posts{}
			return 0
		}),
		"environment.poll": {Do: func(m *machine, _, out []value) bool {
			w := m.World
			r.needsTurn(m, "polls")
			if out[0], out[1] = 0, 0; w.broken {
				out[1] = errModelBroken
				return true
			}
			for i, n := range w.queue {
				out[0] |= value(n) << (4 * i)
			}
			w.queue = posts{}
			return true
		}},
		"environment.has": local(func(_ *machine, in []value) value { return in[1] >> (4 * in[2]) & 15 }),
		"environment.handle": shared(func(m *machine, in []value) value {
			w, i := m.World, in[2]
			n := uint8(in[1] >> (4 * i) & 15)
			if w.inbox[i] += n; r.catching {
				w.open[i] -= n
				for k := range w.need {
					w.need[k][i] -= min(w.need[k][i], n)
				}
			}
			return in[1] &^ (15 << (4 * i))
		}),
		"environment.signal": local(func(_ *machine, in []value) value {
			return steps.Bool(r.does[in[1]] <= receives) * (in[1] + 1)
		}),
		"environment.channel": local(func(_ *machine, in []value) value { return chWait + in[1] }),
		"environment.finish": shared(func(m *machine, in []value) value {
			m.World.closed |= 1 << (chWait + in[1])
			return 0
		}),
		"environment.end": shared(func(m *machine, _ []value) value {
			gone := m.World.gone
			m.World.gone = true
			return steps.Bool(!gone)
		}),
		"environment.stopped": shared(func(m *machine, _ []value) value { m.World.stopped = true; return 0 }),
	}
}
