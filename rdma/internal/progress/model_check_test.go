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
func small() []modelRun {
	return []modelRun{
		{posts: posts{1}, spins: all, expires: all},
		{manual: true, does: whats{polls}, posts: posts{2}, expires: first},
		{manual: true, posts: posts{1}, breaks: true},
		{manual: true, posts: posts{1}, does: whats{1: catches, 2: polls}, stops: true},
		{posts: posts{1}, leads: true, breaks: true, deaf: true},
		{posts: posts{1, 1}, leads: true, does: whats{receives, meantime}},
		{posts: posts{1}, spins: all, leads: true, breaks: true},
		{posts: posts{2}, leads: true, expires: all},
		{posts: posts{1}, spins: all, breaks: true, stops: true},
		{posts: posts{1}, leads: true, stops: true},
		{posts: posts{1, 1}, leads: true, does: whats{receives, waits}, expires: bools{false, true}},
		{posts: posts{1}, spins: all, leads: true, does: whats{2: catches}},
		{posts: posts{1, 1}, spins: first},
		{posts: posts{2}, leads: true, late: all},
		{manual: true, posts: posts{1}, does: whats{receives, catches, polls}, expires: all},
		{posts: posts{1}, does: whats{2: catches}, breaks: true},
		{posts: posts{1, 1}, spins: bools{false, true}, leads: true},
		{posts: posts{1}, does: whats{1: catches, 2: catches}},
	}
}

// findIn explores runs with mistakes until one of them shows.
func findIn(t *testing.T, runs []modelRun, edits []edit, changes ...steps.Site) (o outcome) {
	t.Helper()
	for _, r := range runs {
		r.edits, r.changes = edits, changes
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

// TestModelFinds puts mistakes into the source, those of earlier versions among them, and has the model find each, in
// one of the small runs.
func TestModelFinds(t *testing.T) {
	for _, tt := range []struct {
		name, file, old, new string
		run                  int
		want                 string
	}{
		{"a goroutine that reads does nothing for CatchUp", "lead.go",
			"if err := p.serve(); err != nil {\n\t\t\treturn false, false, err\n\t\t}\n", "", 11,
			"CatchUp waits at progress.go"},
		{"CatchUp is over when another goroutine has polled", "cover.go", "return p.pollAll()", "return nil", 11,
			"CatchUp: CatchUp is over before"},
		{"CatchUp does not keep the turn where it is", "state.go", "return s | event, false\n}", "return s, false\n}", 11,
			"CatchUp waits at progress.go"},
		{"a manual CatchUp polls next to another goroutine", "progress.go", "_ = p.alone(p.pollAll)", "_ = p.pollAll()", 14,
			"CatchUp: it polls without the turn"},
		{"PollWait sleeps without arming", "manual.go", "err := p.src.Arm(); err != nil", "err := error(nil); err != nil", 1,
			"PollWait waits at manual.go"},
		{"an event is forgotten while the turn is taken, before 3b5d22d", "state.go",
			"case s.has(taken) && read:\n\t\treturn s | event, false\n\t}", "}", 0, "the CQ is not covered"},
		{"the poller leaves a token behind, before 0de88ea", "lead.go", "for {\n\t\tselect {\n\t\tcase <-p.promote:",
			"for p.load().reader() != poller {\n\t\tselect {\n\t\tcase <-p.promote:", 16, "two read events"},
		{"cover ignores an event", "state.go", "if s.has(event) {\n\t\treturn s &^ event, false, false\n\t}\n", "", 0,
			"the CQ is not covered"},
		{"rest ignores sleepers", "state.go", "s.sleepers() > 0 || s.reader() == waiter && !reads",
			"s.reader() == waiter && !reads", 12, "somebody is away while others sleep"},
		{"rest ignores a goroutine that reads", "state.go", "s.sleepers() > 0 || s.reader() == waiter && !reads",
			"s.sleepers() > 0", 16, "1 wait until the timer"},
		{"nobody promotes the poller", "cover.go", "if promote {\n\t\ttoken1(p.promote)\n\t}\n\tif s.has(closed)",
			"if s.has(closed)", 7, "the CQ is not covered"},
		{"Wake does not interrupt", "signal.go", "\t\ts.p.src.Interrupt()\n", "", 16, "WaitSignal waits at lead.go"},
		{"Wake does not send", "signal.go", "\t\ts.ch <- struct{}{}\n", "", 0, "WaitSignal waits at bound.go"},
		{"the poller does not watch", "lead.go", "\t\t}\n\t\tp.src.Interrupt()\n\t}\n}", "\t\t}\n\t}\n}", 7,
			"WaitSignal waits at lead.go"},
		{"pass does not interrupt", "cover.go", "if !promote {\n\t\t\tp.src.Interrupt()\n\t\t}\n", "", 0,
			"the CQ is not covered"},
		{"sleep does not arm", "state.go", "s += sleeperBit\n\tif s.free() && s.has(away) {",
			"s += sleeperBit\n\tif false {", 12, "somebody is away while others sleep"},
		{"the timer is not started", "cover.go", "if start {\n\t\t\tp.timer.Reset(absence)\n\t\t}\n", "_ = start\n", 0,
			"somebody is away without a timer"},
		{"a signal is looked for before it can interrupt", "signal.go", "{ return s.state.CompareAndSwap(idle, reading) }",
			"{ if s.state.Load() != idle { return false }; s.state.Store(reading); return true }", 16,
			"WaitSignal waits at lead.go"},
		{"Run ends and leaves a goroutine that evicts", "progress.go", "p.change(state.close)\n\tif p.load().reader() == " +
			"evicted {\n\t\tp.handOver()\n\t}", "p.change(state.close)", 9, "WaitSignal waits at lead.go"},
		{"Stop does not wait for the turn", "progress.go", "if s.has(taken) {\n\t\t\t<-p.left\n\t\t}\n", "", 9,
			"WaitSignal: it polls after Stop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := findIn(t, small()[tt.run:tt.run+1], []edit{{tt.file, tt.old, tt.new}})
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
	"Progress.read: p.turns.Add(1)":                          unseen,
	"Progress.read: p.wakes.Add(1)":                          unseen,
	"Progress.spin: p.turns.Add(1)":                          unseen,
	"Progress.Wait: p.wakes.Add(1)":                          unseen,
	"Progress.WaitSignal: p.wakes.Add(1)":                    unseen,
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
		t.Skip("full runs only, by make test-full: it takes three minutes of processor time")
	}
	sites := make(map[string][]steps.Site) // by function and text
	for _, r := range small() {
		if err := r.compile(); err != nil {
			t.Fatal(err)
		}
		for _, p := range r.programs {
			if p == nil {
				continue
			}
			for _, s := range p.Sites {
				file, _, _ := strings.Cut(s.Where, ":")
				name := s.Function + ": " + s.Text
				if s.Change == steps.Remove && slices.Contains(modelFiles, file) && !slices.Contains(sites[name], s) {
					sites[name] = append(sites[name], s)
				}
			}
		}
	}
	for name := range harmless {
		if sites[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	for name, list := range sites {
		for _, s := range list {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				o := findIn(t, small(), nil, s)
				t.Logf("%s: after %d states: %s", s.Where, o.states, o.wrong)
				if why := harmless[name]; o.wrong == "" && why == "" {
					t.Errorf("%s: without it the model finds nothing", s.Where)
				} else if o.wrong != "" && why != "" {
					t.Errorf("%s: without it: %s", s.Where, o.wrong)
				}
			})
		}
	}
}
