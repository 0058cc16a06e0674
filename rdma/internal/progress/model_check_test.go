package progress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// actorMoves adds the steps of the goroutines, and of an event that is under way.
func (r *modelRun) actorMoves(w world, found func(world)) {
	for i := range modelActors {
		add := func(w world) {
			r.settle(&w, &w.actors[i])
			if !r.catches {
				w.arrived, w.handled = 0, 0
			}
			found(w)
		}
		switch {
		case w.actors[i].pc == pDone || r.common(w, i, add):
		case i == modelPoller:
			r.poller(w, add)
		case i == modelTimer:
			r.look(w, add)
		case w.actors[i].pc >= kJoin && w.actors[i].pc <= kWake:
			r.catchUp(w, i, add)
		default:
			r.waiter(w, i, add)
		}
	}
	if w.raising {
		w.raising, w.there = false, true
		found(w)
	}
}

// otherMoves adds what may happen or not: messages, ends of contexts, and the timer.
func (r *modelRun) otherMoves(w world, add func(world)) {
	for i := range modelWaiters {
		if w.posts[i] > 0 {
			v := w
			v.posts[i]--
			v.queue[i]++
			if r.catches {
				v.arrived++
			}
			if v.on {
				v.on, v.raising = false, true
			}
			add(v)
		}
		if r.expires[i] && !w.expired[i] && w.actors[i].pc != pDone {
			v := w
			v.expired[i] = true
			add(v)
		}
	}
	if r.breaks && !w.broken {
		v := w
		v.broken = true
		add(v)
	}
	if r.stops && !w.gone { // its connections end, and each wakes its goroutine
		v := w
		v.gone = true
		v.actors[modelEnd] = modelActor{pc: cHand, ret: pDone, batch: [modelWaiters]uint8{1, 1, 1}}
		add(v)
	}
	if r.stops && w.gone && !w.stopped && w.actors[modelEnd].pc == pDone {
		v := w
		v.stopped, v.intrd = true, true
		add(v)
	}
	if w.timer && w.actors[modelTimer].pc == tIdle {
		w.timer, w.actors[modelTimer].pc = false, tLook
		add(w)
	}
}

// wrongIn describes a violation in w, "" if there is none. still reports whether nothing happens unless a message
// comes, a context ends or the timer is due.
func (r *modelRun) wrongIn(w *world, still bool) string {
	have, read, waiting, starting := 0, 0, 0, false
	oldPoller := r.wrong == pollerWaits || r.wrong == pollerWaits2 // had another word
	for i := range w.actors {
		a := &w.actors[i]
		if i != modelEnd && holding(a) {
			have++
		}
		switch a.pc {
		case nIn, wIn:
			read++
		case wStart:
			starting = true
		case kWake:
			if w.handled < w.need && !w.broken {
				return "CatchUp is over before what had come was handled"
			}
		}
		if a.pc == wParked || a.pc == wIn {
			waiting++
			if still && w.expired[i] {
				return "a context's end does not end the wait"
			}
		}
	}
	s := w.word
	idle := !s.has(taken)
	switch {
	case have > 1:
		return "two poll"
	case idle != (have == 0):
		return "the word is wrong about the turn"
	case read > 1:
		return "two read events"
	case oldPoller:
	case s.has(closed):
	case s.has(away) && s.sleepers() > 0 && idle:
		return "somebody is away while others sleep"
	case s.has(away) && !w.timer && w.actors[modelTimer].pc != tLook && !starting:
		return "somebody is away without a timer"
	case s.reader() == nobody && idle && !s.has(away):
		return "nobody reads"
	}
	switch {
	case !still || s.has(closed) || w.broken && waiting == 0:
		if still && w.gone && waiting > 0 {
			return "a wait goes on after the end"
		}
	case waiting > 0 && (!w.on || read == 0):
		return fmt.Sprintf("%d wait until the timer is due", waiting)
	case waiting == 0 && !(w.on && read == 1) && !s.has(away):
		return "the CQ is not covered"
	}
	if p := w.actors[modelPoller].pc; r.wrong == pollerWaits2 && p == nHad && s.has(away) {
		return "the poller has the turn of a dialog"
	}
	return ""
}

// wrongAtEnd describes what is wrong with a state from which nothing happens any more.
func (r *modelRun) wrongAtEnd(w *world) string {
	for i := range modelWaiters {
		if w.actors[i].pc != pDone {
			return "a wait does not end"
		}
	}
	if w.word.has(closed) {
		if w.actors[modelPoller].pc != pDone || w.word.has(taken) || w.word.sleepers() > 0 {
			return "the end is not at rest"
		}
		return ""
	}
	if s := w.word &^ recent; s != 0 || !w.on || w.queue != [modelWaiters]uint8{} || w.actors[modelPoller].pc != nIn {
		return "the end is not at rest"
	}
	return ""
}

// explore visits all states, and returns their number and the first violation, or "".
func (r *modelRun) explore() (states int, wrong string, at world) {
	number := map[world]int32{r.first(): 0}
	list := []world{r.first()}
	type edge struct{ from, to int32 }
	var edges []edge
	var ends []int32
	for i := 0; i < len(list); i++ {
		add := func(w world) {
			n, ok := number[w]
			if !ok {
				n = int32(len(list))
				number[w] = n
				list = append(list, w)
			}
			edges = append(edges, edge{int32(i), n})
		}
		before := len(edges)
		r.actorMoves(list[i], add)
		still := len(edges) == before
		if wrong := r.wrongIn(&list[i], still); wrong != "" {
			return len(list), wrong, list[i]
		}
		r.otherMoves(list[i], add)
		if len(edges) == before {
			if wrong := r.wrongAtEnd(&list[i]); wrong != "" {
				return len(list), wrong, list[i]
			}
			ends = append(ends, int32(i))
		}
	}
	// An end can be reached from everywhere.
	to := make([]int32, len(list)+1) // index of the first edge to each
	for _, e := range edges {
		to[e.to+1]++
	}
	for i := range list {
		to[i+1] += to[i]
	}
	from, next := make([]int32, len(edges)), append([]int32(nil), to...)
	for _, e := range edges {
		from[next[e.to]] = e.from
		next[e.to]++
	}
	seen := make([]bool, len(list))
	for len(ends) > 0 {
		n := ends[len(ends)-1]
		ends = ends[:len(ends)-1]
		if !seen[n] {
			seen[n] = true
			ends = append(ends, from[to[n]:to[n+1]]...)
		}
	}
	for i, ok := range seen {
		if !ok {
			return len(list), "no way to an end", list[i]
		}
	}
	return len(list), "", world{}
}

var all = [modelWaiters]bool{true, true, true}

// TestModel explores what a few goroutines can do. With PUREVERBS_FULL there are more of them.
func TestModel(t *testing.T) {
	total, start := 0, time.Now()
	for _, tt := range []struct {
		name string
		full bool
		run  modelRun
	}{
		{"a dialog", false, modelRun{posts: [3]uint8{3}, spins: all, expires: all}},
		{"one reads", false, modelRun{posts: [3]uint8{3}, leads: all, expires: all}},
		{"one reads and polls", false, modelRun{posts: [3]uint8{2}, leads: all, spins: all, expires: all, eager: true}},
		{"a dialog and a sleeper", false, modelRun{posts: [3]uint8{2, 1}, spins: [3]bool{true}}},
		{"two", false, modelRun{posts: [3]uint8{1, 1}, spins: all, leads: all}},
		{"two until a context ends", true, modelRun{posts: [3]uint8{1, 1}, spins: all, leads: all, expires: all}},
		{"the source fails", false, modelRun{posts: [3]uint8{1}, spins: all, leads: all, breaks: true}},
		{"the source fails next to CatchUp", true, modelRun{posts: [3]uint8{1}, spins: all, leads: all, catches: true,
			breaks: true}},
		{"the source fails for two", true, modelRun{posts: [3]uint8{1, 1}, spins: all, leads: all, breaks: true}},
		{"the engine ends", false, modelRun{posts: [3]uint8{2}, spins: all, leads: all, stops: true}},
		{"the engine of two ends", true, modelRun{posts: [3]uint8{1, 1}, spins: all, leads: all, stops: true}},
		{"CatchUp", false, modelRun{posts: [3]uint8{1}, spins: all, leads: all, catches: true}},
		{"three sleep", false, modelRun{posts: [3]uint8{1, 1, 1}}},
		{"CatchUp twice", true, modelRun{posts: [3]uint8{2}, spins: all, leads: all, catches: true}},
		{"three sleep until a context ends", true, modelRun{posts: [3]uint8{1, 1, 1}, expires: [3]bool{true}}},
		{"three", true, modelRun{posts: [3]uint8{1, 1, 1}, leads: [3]bool{true}, spins: [3]bool{false, true}}},
		{"two, twice", true, modelRun{posts: [3]uint8{2, 1}, leads: all, spins: all}},
	} {
		if tt.full && !testutil.Full() {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			began := time.Now()
			states, wrong, at := tt.run.explore()
			t.Logf("%d states, %v", states, time.Since(began).Round(time.Millisecond))
			if wrong != "" {
				t.Errorf("%s: %v\n%+v", wrong, at.word, at)
			}
			total += states
		})
	}
	t.Logf("%d states in %v", total, time.Since(start).Round(time.Millisecond))
}

// TestModelFinds puts mistakes into the model, those of earlier versions among them, and has it find each.
func TestModelFinds(t *testing.T) {
	first := [modelWaiters]bool{true}
	dialog := modelRun{posts: [3]uint8{2, 1}, spins: first}
	reader := modelRun{posts: [3]uint8{3}, leads: all, expires: all}
	both := modelRun{posts: [3]uint8{1, 1}, spins: [3]bool{false, true}, leads: first}
	end := modelRun{posts: [3]uint8{2}, leads: all, stops: true}
	for _, tt := range []struct {
		name  string
		run   modelRun
		wrong mistake
		want  string
	}{
		{"an event is forgotten while the turn is taken, before 3b5d22d", dialog, eventForgotten,
			"2 wait until the timer"},
		{"the poller waits for its turn and leaves sleepers, before 605e8ae", dialog, pollerWaits,
			"1 wait until the timer"},
		{"the poller waits for its turn, before 36ef9c9", dialog, pollerWaits2, "the poller has the turn of a dialog"},
		{"the poller leaves a token behind, before 0de88ea", reader, staleToken, "two read events"},
		{"cover ignores an event", dialog, eventIgnored, "2 wait until the timer"},
		{"rest ignores sleepers", dialog, sleeperIgnored, "somebody is away while others sleep"},
		{"rest ignores a goroutine that reads", both, readerIgnored, "1 wait until the timer"},
		{"nobody promotes the poller", reader, neverPromoted, "the CQ is not covered"},
		{"Wake does not interrupt", both, notInterrupted, "a wait does not end"},
		{"the poller does not watch", reader, endsUnwatched, "a context's end"},
		{"pass does not interrupt", dialog, passUntold, "1 wait until the timer"},
		{"sleep does not arm", dialog, sleepUnarmed, "somebody is away while others sleep"},
		{"the timer is not started", dialog, timerForgotten, "somebody is away without a timer"},
		{"a signal is looked for before it can interrupt", both, lateMark, "a wait does not end"},
		{"Run ends and leaves a goroutine that evicts", end, evictedLeft, "a wait does not end"},
		{"Wake does not send", dialog, parkLost, "a wait does not end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.run.wrong = tt.wrong
			states, wrong, _ := tt.run.explore()
			t.Logf("after %d states: %s", states, wrong)
			if !strings.HasPrefix(wrong, tt.want) {
				t.Errorf("%q, want %q", wrong, tt.want)
			}
		})
	}
}
