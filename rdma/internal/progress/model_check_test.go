package progress

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/steps"
)

type (
	bools = [modelWaiters]bool
	posts = [modelWaiters]uint8
	whats = [modelWaiters]what
)

var (
	all   = bools{true, true, true}
	first = bools{true}
)

// TestModel explores what a few goroutines can do. With PUREVERBS_FULL there are more of them.
func TestModel(t *testing.T) {
	total, start := 0, time.Now()
	for _, tt := range []struct {
		name string
		full bool
		run  modelRun
	}{
		{"a dialog", false, modelRun{posts: posts{2}, spins: all, expires: all}},
		{"one reads", false, modelRun{posts: posts{3}, leads: true, expires: all}},
		{"one reads and polls", false, modelRun{posts: posts{2}, leads: true, spins: all, expires: all, eager: true}},
		{"one reads until its deadline, which moves", false, modelRun{posts: posts{2}, leads: true, late: all}},
		{"a dialog and a sleeper", false, modelRun{posts: posts{1, 1}, spins: first}},
		{"two", false, modelRun{posts: posts{1, 1}, spins: bools{false, true}, leads: true}},
		{"one next to Wait", false, modelRun{posts: posts{1, 1}, leads: true, does: whats{receives, waits},
			expires: bools{false, true}}},
		{"one next to Meanwhile", false, modelRun{posts: posts{1, 1}, leads: true, does: whats{receives, meantime}}},
		{"CatchUp", false, modelRun{posts: posts{1}, spins: all, leads: true, does: whats{2: catches}}},
		{"CatchUp, and the engine ends", false, modelRun{posts: posts{1}, does: whats{2: catches}, stops: true}},
		{"the source fails", false, modelRun{posts: posts{1}, spins: all, leads: true, breaks: true}},
		{"the engine ends", false, modelRun{posts: posts{1}, spins: all, leads: true, stops: true}},

		{"a program that polls", false, modelRun{manual: true, posts: posts{1}, does: whats{receives, catches, polls},
			expires: all}},

		{"a longer dialog", true, modelRun{posts: posts{3}, spins: all, expires: all}},
		{"a longer dialog and a sleeper", true, modelRun{posts: posts{2, 1}, spins: first}},
		{"two that do all", true, modelRun{posts: posts{1, 1}, spins: all, leads: true}},
		{"two until a context ends", true, modelRun{posts: posts{1, 1}, spins: all, leads: true, expires: all}},
		{"two, twice", true, modelRun{posts: posts{2, 1}, leads: true, spins: all}},
		{"three sleep", true, modelRun{posts: posts{1, 1, 1}}},
		{"three sleep until a context ends", true, modelRun{posts: posts{1, 1, 1}, expires: first}},
		{"three", true, modelRun{posts: posts{1, 1, 1}, leads: true, spins: bools{false, true}}},
		{"CatchUp after CatchUp", true, modelRun{posts: posts{1}, spins: all, does: whats{1: catches, 2: catches}}},
		{"CatchUp next to two messages", true, modelRun{posts: posts{2}, spins: all, leads: true,
			does: whats{2: catches}}},
		{"CatchUp, and the engine of one that reads ends", true, modelRun{posts: posts{1}, leads: true,
			does: whats{2: catches}, stops: true}},
		{"CatchUp, and the source fails", true, modelRun{posts: posts{1}, leads: true, does: whats{2: catches},
			breaks: true}},
		{"the source fails for two", true, modelRun{posts: posts{1, 1}, spins: all, leads: true, breaks: true}},
		{"the source fails next to Wait", true, modelRun{posts: posts{1, 1}, leads: true, does: whats{receives, waits},
			breaks: true}},
		{"the engine ends after a message", true, modelRun{posts: posts{2}, spins: all, leads: true, stops: true}},
		{"the engine of two ends", true, modelRun{posts: posts{1, 1}, spins: all, leads: true, stops: true}},
	} {
		if tt.full && !testutil.Full() {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			began := time.Now()
			o, err := tt.run.explore()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%v, %v", o, time.Since(began).Round(time.Millisecond))
			if o.wrong != "" {
				t.Fail()
			}
			total += o.states
		})
	}
	t.Logf("%d states in %v", total, time.Since(start).Round(time.Millisecond))
}

// small are runs in which most mistakes show, the fastest first.
var small = []struct {
	name string
	run  modelRun
}{
	{"polls", modelRun{posts: posts{1}, spins: all, expires: all}},
	{"manual", modelRun{manual: true, does: whats{polls}, posts: posts{2}, expires: first}},
	{"manual fails", modelRun{manual: true, posts: posts{1}, breaks: true}},
	{"manual ends", modelRun{manual: true, posts: posts{1}, does: whats{1: catches, 2: polls}, stops: true}},
	{"deaf", modelRun{posts: posts{1}, leads: true, breaks: true, deaf: true}},
	{"Meanwhile", modelRun{posts: posts{1, 1}, leads: true, does: whats{receives, meantime}}},
	{"fails", modelRun{posts: posts{1}, spins: all, leads: true, breaks: true}},
	{"reads", modelRun{posts: posts{2}, leads: true, expires: all}},
	{"fails and ends", modelRun{posts: posts{1}, spins: all, breaks: true, stops: true}},
	{"ends", modelRun{posts: posts{1}, leads: true, stops: true}},
	{"Wait", modelRun{posts: posts{1, 1}, leads: true, does: whats{receives, waits}, expires: bools{false, true}}},
	{"CatchUp", modelRun{posts: posts{1}, spins: all, leads: true, does: whats{2: catches}}},
	{"sleeps", modelRun{posts: posts{1, 1}, spins: first}},
	{"moves", modelRun{posts: posts{2}, leads: true, late: all}},
	{"manual CatchUp", modelRun{manual: true, posts: posts{1}, does: whats{receives, catches, polls}, expires: all}},
	{"CatchUp fails", modelRun{posts: posts{1}, does: whats{2: catches}, breaks: true}},
	{"two", modelRun{posts: posts{1, 1}, spins: bools{false, true}, leads: true}},
	{"two CatchUps", modelRun{posts: posts{1}, does: whats{1: catches, 2: catches}}},
}

// findIn explores the small runs with mistakes, or the one of that name, until one of the mistakes shows.
func findIn(t *testing.T, name string, edits []edit, without ...steps.Statement) (o outcome) {
	t.Helper()
	for _, s := range small {
		if name != "" && name != s.name {
			continue
		}
		r := s.run
		r.edits, r.without = edits, without
		var err error
		if o, err = r.explore(); err != nil {
			t.Fatal(err)
		}
		if o.wrong != "" {
			break
		}
	}
	return o
}

// TestModelFinds puts mistakes into the source, those of earlier versions among them, and has the model find each.
func TestModelFinds(t *testing.T) {
	for _, tt := range []struct {
		name           string
		file, old, new string
		in             string // one of the small runs
		want           string
	}{
		{"a goroutine that reads does nothing for CatchUp", "lead.go", `
		if err := p.serve(); err != nil {
			return false, false, err
		}
`, "\n", "CatchUp", "CatchUp waits at progress.go"},
		{"CatchUp is over when another goroutine has polled", "cover.go", "err := p.pollAll()", "err := error(nil)",
			"CatchUp", "CatchUp: CatchUp is over before"},
		{"CatchUp does not keep the turn where it is", "state.go", "return s | event, false\n}", "return s, false\n}",
			"CatchUp", "CatchUp waits at progress.go"},
		{"a manual CatchUp polls next to another goroutine", "progress.go", "_ = p.alone(p.pollAll)", "_ = p.pollAll()",
			"manual CatchUp", "CatchUp: it polls without the turn"},
		{"PollWait sleeps without arming", "manual.go", "p.src.Arm()", "error(nil)",
			"manual", "PollWait waits at manual.go"},
		{"an event is forgotten while the turn is taken, before 3b5d22d", "state.go", `
	case s.has(taken) && read:
		return s | event, false
`, "\n", "polls", "the CQ is not covered"},
		{"the poller leaves a token behind, before 0de88ea", "lead.go", `
	for {
		select {
		case <-p.promote:`, `
	for p.load().reader() != poller {
		select {
		case <-p.promote:`, "two", "two read events"},
		{"cover ignores an event", "state.go", `
	if s.has(event) {
		return s &^ event, false, false
	}
`, "\n", "polls", "the CQ is not covered"},
		{"rest ignores sleepers", "state.go", "s.sleepers() > 0 || s.reader() == waiter && !reads",
			"s.reader() == waiter && !reads", "sleeps", "somebody is away while others sleep"},
		{"rest ignores a goroutine that reads", "state.go", "s.sleepers() > 0 || s.reader() == waiter && !reads",
			"s.sleepers() > 0", "two", "1 wait until the timer"},
		{"nobody promotes the poller", "cover.go", `
	if promote {
		Token(p.promote)
	}
	if s.has(closed)`, `
	if s.has(closed)`, "reads", "the CQ is not covered"},
		{"Wake does not interrupt", "signal.go", "\t\ts.p.src.Interrupt()\n", "", "ends",
			"WaitSignal waits at lead.go"},
		{"Wake does not send", "signal.go", "\t\ts.ch <- struct{}{}\n", "", "polls", "WaitSignal waits at bound.go"},
		{"the poller does not watch", "lead.go", `
		}
		p.src.Interrupt()
	}`, "}}", "reads", "WaitSignal waits at lead.go"},
		{"pass does not interrupt", "cover.go", `
		if !promote {
			p.src.Interrupt()
		}
`, "\n", "polls", "the CQ is not covered"},
		{"sleep does not arm", "state.go", `
	s += sleeperBit
	if s.free() && s.has(away) {`, "\ns += sleeperBit\nif false {", "sleeps", "somebody is away while others sleep"},
		{"the timer is not started", "cover.go", `
		if start {
			p.timer.Reset(Absence)
		}
`, "\n_ = start\n", "polls", "somebody is away without a timer"},
		{"a signal is looked for before it can interrupt", "signal.go",
			"{ return s.state.CompareAndSwap(idle, reading) }", `{
				if s.state.Load() != idle {
					return false
				}
				s.state.Store(reading)
				return true
			}`, "ends", "WaitSignal waits at lead.go"},
		{"Run ends and leaves a goroutine that evicts", "progress.go", `
	p.change(state.close)
	if p.load().reader() == evicted {
		p.handOver()
	}`, "\np.change(state.close)", "ends", "WaitSignal waits at lead.go"},
		{"Stop does not wait for the turn", "progress.go", `
	if p.step(func(s state) (state, bool) { return s.close(), s.has(taken) }) {
		<-p.left
	}
`, "\np.change(state.close)\n", "ends", "WaitSignal: it polls after Stop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := findIn(t, tt.in, []edit{{tt.file, tt.old, tt.new}})
			t.Logf("after %d states: %s", o.states, o.wrong)
			if !strings.HasPrefix(o.wrong, tt.want) {
				t.Errorf("%q, want %q", o.wrong, tt.want)
			}
		})
	}
}

const (
	unseen  = "the model does not see it"
	anEvent = "the event of the completion is read later, and has the same effect"
	inVain  = "a goroutine looks once more, and finds nothing to do"
	busy    = "the goroutine polls instead of sleeping, until its message comes"
)

// harmless are statements that the model can do without, and why.
var harmless = map[string]string{
	"Progress.change: s = p.load()":                          "a swap that fails is a load that comes later",
	"Progress.drain: *most = max(*most-1, 0)":                "passAfter is 1",
	"Progress.drain: runtime.Gosched()":                      unseen,
	"Progress.pollFor: runtime.Gosched()":                    unseen,
	"Progress.pollFor: yield()":                              unseen,
	"Progress.pollUntil: runtime.Gosched()":                  unseen,
	"Progress.pollUntil: time.Sleep(pause)":                  unseen,
	"Progress.pollUntil: last = time.Now()":                  unseen,
	"Progress.drainFor: yield()":                             unseen,
	"Progress.read: p.Turns.Add(1)":                          unseen,
	"Progress.read: p.Wakes.Add(1)":                          unseen,
	"Progress.spin: p.Turns.Add(1)":                          unseen,
	"Progress.Wait: p.Wakes.Add(1)":                          unseen,
	"Progress.WaitSignal: p.Wakes.Add(1)":                    unseen,
	"Progress.WaitSignal: patience.learn(done)":              unseen,
	"Progress.lead: p.streak.Store(handedBack)":              unseen,
	"Progress.lead: p.streak.Store(min(p.streak.Load(), 0))": unseen,
	"Progress.resign: p.streak.Store(handedBack)":            unseen,
	"Signal.wait: s.ch = make(chan struct{}, 1)":             unseen,

	"Progress.pollAll: p.armed = false":  anEvent,
	"Progress.drainFor: p.armed = false": anEvent,
	"Progress.pollFor: p.armed = false":  anEvent,
	"Progress.Run: read = true":          anEvent,

	"Progress.pollAll: left -= n":                               "messages have an end: see TestBusy",
	"Progress.pollFor: if err := p.serve(); err != nil {":       "it does not poll for long: see TestBusy",
	"Progress.pollFor: if err := b.Expired(); err != nil {":     "the same",
	"Progress.takeAsked: p.asked.Store(false)":                  inVain,
	"Progress.standBy: e.done = nil":                            inVain,
	"Progress.standBy: e.late = nil":                            inVain,
	"Progress.read: sig.stopReading()":                          inVain,
	"Signal.stopReading: s.state.CompareAndSwap(reading, idle)": inVain,
	"Signal.wait: s.state.Store(idle)":                          inVain,
	"Progress.Stop: p.timer.Stop()":                             inVain,
	"state.take: s |= recent":                                   inVain,
	"state.rest: s = s&^recent | timing":                        inVain,
	"state.lead: s, ok = s.take()":                              "nobody leads without evicting the poller",
	"Progress.read: err = p.src.ReadEvents()":                   busy,
	"Progress.drainFor: patient = false":                        busy,
	"Progress.drainFor: p.armed = true":                         busy,
}

// TestModelNeeds leaves out each statement that has nothing but an effect, and has the model find that.
func TestModelNeeds(t *testing.T) {
	if !testutil.Full() {
		t.Skip("full runs only, by make test-full: takes three minutes of processor time")
	}
	list := make(map[string][]steps.Statement) // by function and text
	for _, s := range small {
		r := s.run
		if err := r.compile(); err != nil {
			t.Fatal(err)
		}
		for _, p := range r.programs {
			if p == nil {
				continue
			}
			for _, st := range p.Statements {
				file, _, _ := strings.Cut(st.Where, ":")
				name := st.Function + ": " + st.Text
				if slices.Contains(modelFiles, file) && !slices.Contains(list[name], st) {
					list[name] = append(list[name], st)
				}
			}
		}
	}
	for name := range harmless {
		if list[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	for name, statements := range list {
		for _, st := range statements {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				o := findIn(t, "", nil, st)
				t.Logf("%s: after %d states: %s", st.Where, o.states, o.wrong)
				if why := harmless[name]; o.wrong == "" && why == "" {
					t.Errorf("%s: without it the model finds nothing", st.Where)
				} else if o.wrong != "" && why != "" {
					t.Errorf("%s: without it: %s", st.Where, o.wrong)
				}
			})
		}
	}
}
