package progress

import "github.com/pureverbs/pureverbs/internal/testutil/steps"

type (
	machine   = steps.Machine[world]
	primitive = steps.Primitive[world]
)

// shared is an operation that begins a step.
func shared(do func(m *machine, in, out []steps.Value)) primitive {
	return primitive{Do: func(m *machine, in, out []steps.Value) bool {
		do(m, in, out)
		return true
	}}
}

// local is one that does not.
func local(do func(m *machine, in, out []steps.Value)) primitive {
	p := shared(do)
	p.Local = true
	return p
}

func is(v steps.Value) primitive { return local(func(_ *machine, _, out []steps.Value) { out[0] = v }) }

var nothing = local(func(*machine, []steps.Value, []steps.Value) {})

// after is p as a part of the step of an operation before.
func after(p primitive, names ...string) primitive {
	p.Joins = func(m *machine, _ []steps.Value) bool {
		for _, name := range names {
			if m.Last == name {
				return true
			}
		}
		return false
	}
	return p
}

// unless is p as a local operation in runs in which nothing else can happen.
func unless(p primitive, can bool) primitive {
	p.Local = !can
	return p
}

// needsTurn reports it if the goroutine does what belongs to the turn without having it, or after Stop.
func (r *modelRun) needsTurn(m *machine, what string) {
	r.used(m, what)
	if (!r.manual || m.World.users[1] == 0) && m.World.holder != uint8(m.Actor+1) {
		m.Fail("it %s without the turn", what)
	}
}

// used reports it if Stop is over.
func (r *modelRun) used(m *machine, what string) {
	if m.World.stopped {
		m.Fail("it %s after Stop", what)
	}
}

// setWord changes the word, and notes who has the turn.
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

func (w *world) arm(eager bool) {
	if w.there || w.raising {
		return
	}
	w.on = true
	if eager && w.queue != [modelWaiters]uint8{} {
		w.on, w.raising = false, true
	}
}

// ready reports whether a channel has something.
func ready(m *machine, ch steps.Value, send bool) bool {
	w, bit := m.World, uint32(1)<<ch
	if send {
		return buffered&bit != 0 && w.full&bit == 0
	}
	return (w.full|w.closed)&bit != 0
}

func pass(m *machine, ch steps.Value, send bool, v steps.Value) steps.Value {
	w, bit := m.World, uint32(1)<<ch
	if send {
		if w.full |= bit; ch == chEviction {
			w.evicts = uint16(v)
		}
		return 0
	}
	if w.full &^= bit; ch == chEviction {
		v, w.evicts = steps.Value(w.evicts), 0
	}
	return v
}

func closeChannel(m *machine, ch steps.Value) {
	if m.World.closed>>ch&1 == 1 {
		m.Fail("a channel is closed twice")
	}
	m.World.closed |= 1 << ch
}

// primitives returns what the goroutines of a run share.
func (r *modelRun) primitives() *steps.Model[world] {
	deadlines := r.late != [modelWaiters]bool{}
	contexts := r.expires != [modelWaiters]bool{}
	streak := steps.Value(0)
	if r.leads {
		streak = steps.Any
	}
	m := &steps.Model[world]{
		Calls: map[string]string{"Source.Poll": "modelPoll", "Options.Fail": "modelFail"},
		Consts: map[string]steps.Value{"model": 1, "Options.Manual": steps.Bool(r.manual), "spinPolls": 1, "passAfter": 1, "epoch": 0,
			"Progress.src": 1, "Signal.p": 1, "Progress.promote": chPromote, "Progress.eviction": chEviction,
			"Progress.handover": chHandover, "Progress.left": chLeft, "Progress.manual": 1, "turn.Turn.most": 1, "Progress.polling": 2, "Progress.open": modelWaiters + 1,
			"Progress.timer":         1,
			"os.ErrDeadlineExceeded": errModelLate, "turn.ErrWouldWait": errModelOther,
			"ErrStopped": errModelOther},
		Ready: ready, Pass: pass, Close: closeChannel,
	}
	m.Primitives = map[string]primitive{
		"yield": nothing, "runtime.Gosched": nothing, "runtime.GOMAXPROCS": is(2),
		"time.Now": is(steps.Any), "time.Since": is(steps.Any), "time.Sleep": nothing,
		"Progress.wakes.Add": is(0), "Progress.turns.Add": is(0),
		"Progress.opt":       is(steps.Pack(0, 1, 1)),
		"Patience.spins":     local(func(_ *machine, in, out []steps.Value) { out[0] = steps.Any }),
		"Patience.learn":     nothing,
		"Progress.last.Swap": is(steps.Any), "Progress.streak.Load": is(0), "Progress.streak.Store": nothing,
		"Progress.streak.Add": is(streak),

		"Progress.state.Load": shared(func(m *machine, _, out []steps.Value) { out[0] = steps.Value(m.World.word) }),
		"Progress.state.Add":  shared(func(m *machine, in, out []steps.Value) { m.World.word += state(in[1]) }),
		"Progress.state.CompareAndSwap": after(shared(func(m *machine, in, out []steps.Value) {
			if out[0] = steps.Bool(m.World.word == state(in[1])); out[0] != 0 {
				r.setWord(m, state(in[2]))
			}
		}), "Progress.state.Load"), // each has a Load of its own
		"Progress.armed": local(func(m *machine, _, out []steps.Value) {
			r.needsTurn(m, "reads armed")
			out[0] = steps.Bool(m.World.armed)
		}),
		"Progress.armed=": local(func(m *machine, in, _ []steps.Value) {
			r.needsTurn(m, "sets armed")
			m.World.armed = in[1] != 0
		}),
		"Progress.ends":  local(func(m *machine, _, out []steps.Value) { out[0] = steps.Value(m.World.ends) }),
		"Progress.ends=": local(func(m *machine, in, _ []steps.Value) { m.World.ends = uint16(in[1]) }),

		"Source.Depth": shared(func(m *machine, _, out []steps.Value) { // or more
			if out[0] = 3; m.World.queue == [modelWaiters]uint8{} {
				out[0] = steps.Value(m.Choose(2))
			}
		}),
		"Source.Arm": shared(func(m *machine, _, out []steps.Value) {
			if r.used(m, "arms"); !r.manual {
				r.needsTurn(m, "arms")
			}
			if out[0] = errModelBroken; !m.World.broken {
				m.World.arm(r.eager)
				out[0] = 0
			}
		}),
		"Source.WaitEvent": {Do: func(m *machine, in, out []steps.Value) bool {
			r.used(m, "waits")
			w := m.World
			ended := (w.closed>>contextChannel(in[1])|w.closed>>contextChannel(in[2]))&1 == 1
			if came := steps.Value(w.events) != in[3]; came && ended {
				out[0] = steps.Value(m.Choose(2)) * errModelDone
			} else {
				out[0] = steps.Bool(ended) * errModelDone
				return came || ended
			}
			return true
		}},
		"Source.Events": local(func(m *machine, _, out []steps.Value) { // since the call before
			if r.manual {
				out[0] = steps.Value(m.World.events)
				return
			}
			out[0], m.World.read = steps.Bool(m.World.read), false
		}),
		"Source.ReadEvents": {Do: r.readEvents},
		"Source.Interrupt":  shared(func(m *machine, _, _ []steps.Value) { m.World.intrd = true }),

		"Signal.ch":  local(func(_ *machine, in, out []steps.Value) { out[0] = chSignal + in[0] - 1 }), // as it was made
		"Signal.ch=": nothing,
		"Signal.state.Load": after(shared(func(m *machine, in, out []steps.Value) {
			out[0] = steps.Value(m.World.signal[in[0]-1])
		}), "environment.handle"), // the connection is locked meanwhile
		"Signal.state.Store": shared(func(m *machine, in, _ []steps.Value) { m.World.signal[in[0]-1] = uint8(in[1]) }),
		"Signal.state.Swap": after(shared(func(m *machine, in, out []steps.Value) {
			s := &m.World.signal[in[0]-1]
			out[0], *s = steps.Value(*s), uint8(in[1])
		}), "Signal.state.Load"), // which had the same effect
		"Signal.state.CompareAndSwap": {
			Do: func(m *machine, in, out []steps.Value) bool {
				s := &m.World.signal[in[0]-1]
				if out[0] = steps.Bool(*s == uint8(in[1])); out[0] != 0 {
					*s = uint8(in[2])
				}
				return true
			},
			Joins: func(m *machine, in []steps.Value) bool { // Take
				return m.Last == "Signal.state.Load" && in[1] == steps.Value(token)
			},
		},

		"Progress.askMu.Lock": {Do: func(m *machine, _, _ []steps.Value) bool {
			if m.World.asking {
				return false
			}
			m.World.asking = true
			m.Hold()
			return true
		}},
		"Progress.askMu.Unlock": local(func(m *machine, _, _ []steps.Value) {
			if !m.World.asking {
				m.Fail("it unlocks askMu, which is not locked")
			}
			m.World.asking = false
			m.Release()
		}),
		"Progress.asked.Load": unless(shared(func(m *machine, _, out []steps.Value) {
			out[0] = steps.Bool(m.World.asked)
		}), r.asks()),
		"Progress.asked.Store": shared(func(m *machine, in, _ []steps.Value) { m.World.asked = in[1] != 0 }),
		"Progress.caught":      shared(func(m *machine, _, out []steps.Value) { out[0] = steps.Value(m.World.caught) }),
		"Progress.caught=":     shared(func(m *machine, in, _ []steps.Value) { m.World.caught = uint8(in[1]) }),
		"turn.Turn.next":       local(func(_ *machine, in, out []steps.Value) { out[0] = chNext + in[0] - 1 }),
		"turn.Turn.users.Load": shared(func(m *machine, in, out []steps.Value) {
			out[0] = steps.Value(m.World.users[in[0]-1])
		}),
		"turn.Turn.users.Add": shared(func(m *machine, in, out []steps.Value) {
			n := &m.World.users[in[0]-1]
			*n += int8(in[1])
			out[0] = steps.Value(*n)
		}),
		"turn.Turn.users.CompareAndSwap": after(shared(func(m *machine, in, out []steps.Value) {
			n := &m.World.users[in[0]-1]
			if out[0] = steps.Bool(*n == int8(in[1])); out[0] != 0 {
				*n = int8(in[2])
			}
		}), "turn.Turn.users.Load"),
		"make(chan)": shared(func(m *machine, _, out []steps.Value) {
			out[0] = chCaught + steps.Value(m.World.made)
			m.World.made++
		}),

		"time.Timer.Reset": shared(func(m *machine, _, out []steps.Value) { m.World.timer, out[0] = true, 0 }),
		"time.Timer.Stop":  shared(func(m *machine, _, out []steps.Value) { m.World.timer, out[0] = false, 0 }),

		"Progress.failed.DoBegin": {Do: func(m *machine, _, out []steps.Value) bool {
			o := &m.World.once
			if *o == 1 {
				return false
			}
			if out[0] = 1 - steps.Value(*o)/2; *o == 0 {
				*o = 1
			}
			return true
		}},
		"Progress.failed.DoEnd": shared(func(m *machine, _, _ []steps.Value) { m.World.once = 2 }),

		"context.Context.Err": unless(shared(func(m *machine, in, out []steps.Value) {
			out[0] = steps.Value(m.World.closed>>contextChannel(in[0])&1) * errModelDone
		}), r.stops || contexts),
		"context.Context.Done": local(func(_ *machine, in, out []steps.Value) { out[0] = contextChannel(in[0]) }),
		"Progress.end":         shared(func(m *machine, _, _ []steps.Value) { m.World.closed |= 1 << chRun }),
		"context.AfterFunc":    local(func(m *machine, _, _ []steps.Value) { m.World.hooked = true }), // see promptly
		"deadline.Deadline.Past": unless(shared(func(m *machine, in, out []steps.Value) {
			out[0] = chLate + 2*(in[0]-1) + steps.Bool(m.World.moved[in[0]-1])
		}), deadlines),
		"deadline.IsClosed": {
			Do: func(m *machine, in, out []steps.Value) bool {
				out[0] = steps.Value(m.World.closed >> in[0] & 1)
				return true
			},
			Joins: func(_ *machine, in []steps.Value) bool { return in[0] == 0 },
		},
	}
	r.environment(m.Primitives)
	return m
}

// contextChannel returns the channel of a context: of a goroutine, or of Run.
func contextChannel(ctx steps.Value) steps.Value {
	if ctx > modelWaiters {
		return chRun
	}
	return chDone + ctx - 1
}

// asks reports whether a goroutine is in CatchUp.
func (r *modelRun) asks() bool {
	for _, what := range r.does {
		if what == catches {
			return true
		}
	}
	return false
}

// readEvents is Source.ReadEvents.
func (r *modelRun) readEvents(m *machine, _, out []steps.Value) bool {
	w, n := m.World, 0
	can := [...]bool{w.broken && !r.deaf, w.intrd, w.there}
	for _, can := range can {
		if can {
			n++
		}
	}
	if n == 0 {
		return false
	}
	n = m.Choose(n)
	for i, can := range can {
		if !can {
			continue
		}
		if n == 0 {
			switch out[0] = 0; i {
			case 0:
				out[0] = errModelBroken
			case 1:
				w.intrd = false
			case 2:
				w.there, w.read = false, true
			}
			break
		}
		n--
	}
	return true
}

// environment adds the operations of the model's own goroutines.
func (r *modelRun) environment(add map[string]primitive) {
	for name, p := range map[string]primitive{
		"receive": shared(func(m *machine, in, out []steps.Value) {
			w, i := m.World, in[1]
			w.got[i] += w.inbox[i]
			w.inbox[i] = 0
			out[0] = steps.Bool(!w.gone && w.got[i] < r.posts[i])
		}),
		"begin": shared(func(m *machine, in, _ []steps.Value) { m.World.need[in[1]] = m.World.open }),
		"caughtUp": local(func(m *machine, in, _ []steps.Value) {
			if n := &m.World.need[in[1]]; *n != [modelWaiters]uint8{} && !m.World.broken && !m.World.word.has(closed) {
				m.Fail("CatchUp is over before what had come was handled")
			}
			m.World.need[in[1]] = [modelWaiters]uint8{}
		}),
		"poll": shared(func(m *machine, _, out []steps.Value) {
			w := m.World
			if r.needsTurn(m, "polls"); w.broken {
				out[0], out[1] = 0, errModelBroken
				return
			}
			out[0], out[1] = 0, 0
			for i, n := range w.queue {
				out[0] |= steps.Value(n) << (4 * i)
			}
			w.queue = [modelWaiters]uint8{}
		}),
		"has": local(func(_ *machine, in, out []steps.Value) { out[0] = in[1] >> (4 * in[2]) & 15 }),
		"handle": shared(func(m *machine, in, out []steps.Value) {
			w, i := m.World, in[2]
			n := uint8(in[1] >> (4 * i) & 15)
			out[0] = in[1] &^ (15 << (4 * i))
			if w.inbox[i] += n; r.catching {
				w.open[i] -= n
				for k := range w.need {
					w.need[k][i] -= min(w.need[k][i], n)
				}
			}
		}),
		"signal": local(func(_ *machine, in, out []steps.Value) {
			if out[0] = 0; r.does[in[1]] <= receives {
				out[0] = in[1] + 1
			}
		}),
		"channel": local(func(_ *machine, in, out []steps.Value) { out[0] = chWait + in[1] }),
		"finish":  shared(func(m *machine, in, _ []steps.Value) { m.World.closed |= 1 << (chWait + in[1]) }),
		"stopped": shared(func(m *machine, _, _ []steps.Value) { m.World.stopped = true }),
		"end": shared(func(m *machine, _, out []steps.Value) {
			out[0], m.World.gone = steps.Bool(!m.World.gone), true
		}),
	} {
		add["environment."+name] = p
	}
}
