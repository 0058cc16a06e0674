package progress

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/testutil/steps"
)

// promptly adds the steps of the goroutines, and what happens soon after another thing.
func (r *modelRun) promptly(m *machine, w *world, found func(w world, what int, wrong string)) {
	for i, p := range r.programs {
		if w.actors[i] == 0 {
			continue
		}
		m.Actor = i
		p.Step(m, w, w.actors[i], func(next *world, at steps.At) {
			next.actors[i] = at
			found(*next, i, m.Wrong)
		})
	}
	if w.raising {
		v := *w
		if v.raising, v.there = false, !r.manual; r.manual {
			v.events++ // another goroutine reads it
		}
		found(v, tookPlace, "")
	}
	if w.stopping { // what Run leaves with context.AfterFunc
		v := *w
		v.stopping, v.intrd = false, true
		found(v, tookPlace, "")
	}
}

// tookPlace is a step of no goroutine.
const tookPlace = -1

// perhaps adds what may happen or not: messages, ends of contexts, and the timer.
func (r *modelRun) perhaps(m *machine, w *world, add func(w world)) {
	for i := range modelWaiters {
		if w.posts[i] > 0 {
			v := *w
			v.posts[i]--
			v.queue[i]++
			if r.catching {
				v.open[i]++
			}
			if v.on {
				v.on, v.raising = false, true
			}
			add(v)
		}
		closes := func(ch steps.Value) {
			if w.closed>>ch&1 == 0 && w.actors[i] != 0 {
				v := *w
				if v.closed |= 1 << ch; r.manual {
					v.posts[i] = 0 // a goroutine that polls waits without being still
				}
				add(v)
			}
		}
		n := steps.Value(i)
		if r.expires[i] {
			closes(chDone + n)
		}
		if late := chLate + 2*n; r.late[i] {
			if closes(late); w.closed>>late&1 == 1 && !w.moved[i] {
				v := *w
				v.moved[i] = true
				add(v)
			}
		}
	}
	if r.breaks && !w.broken {
		v := *w
		v.broken = true
		add(v)
	}
	start := func(v world, i int) {
		m.World, m.Actor = &v, i
		v.actors[i] = r.programs[i].Start(m)
		add(v)
	}
	if r.stops && !w.gone { // its connections end, and each wakes its goroutine
		start(*w, modelEnd)
	}
	if r.stops && w.gone && w.actors[modelEnd] == 0 {
		if w.closed>>chRun&1 == 0 && !r.manual {
			v := *w
			v.closed |= 1 << chRun
			v.stopping = v.hooked
			add(v)
		} else if !w.stops && w.actors[modelPoller] == 0 {
			v := *w
			v.stops = true
			start(v, modelStop)
		}
	}
	if w.timer && w.actors[modelTimer] == 0 {
		v := *w
		v.timer = false
		start(v, modelTimer)
	}
}

// mayWait reports whether a goroutine may wait for ever: for messages, a channel, or events.
func (r *modelRun) mayWait(w *world, i int) bool {
	op, function, _ := r.programs[i].Next(w.actors[i])
	ended := w.word.has(closed) || w.gone
	switch {
	case i == modelPoller:
		in := op == "Source.ReadEvents" || function == "Progress.standBy"
		return in && w.closed>>chRun&1 == 0 && !w.word.has(closed)
	case i < modelWaiters && r.does[i] == polls:
		at := op == "Source.WaitEvent" || function == "turn.Turn.wait"
		return at && w.queue == posts{} && w.closed>>(chDone+steps.Value(i))&1 == 0 && !w.word.has(closed)
	case i >= modelWaiters || w.queue[i] > 0 || ended:
		return false
	case w.closed>>(chDone+steps.Value(i))&1 == 1 || w.closed>>(chLate+2*steps.Value(i))&1 == 1 && !w.moved[i]:
		return false
	case r.does[i] == receives:
		return w.inbox[i] == 0 && (op == "Source.ReadEvents" || function == "turn.Bound.Wait")
	case r.does[i] == waits:
		return function == "turn.Bound.Wait"
	case r.does[i] == meantime:
		return function == "meanwhile"
	}
	return false
}

// wrongIn describes a violation in w, "" if there is none. still reports whether nothing happens unless a message
// comes, a context ends or the timer is due.
func (r *modelRun) wrongIn(w *world, still bool) string {
	read, waiting, starting := 0, 0, 0
	for i, at := range w.actors {
		if at == 0 {
			continue
		}
		op, _, where := r.programs[i].Next(at)
		switch op {
		case "Source.ReadEvents":
			read++
		case "time.Timer.Reset":
			starting++
		}
		if still {
			if !r.mayWait(w, i) {
				return fmt.Sprintf("%s waits at %s", r.actor(i), where)
			}
			if i < modelWaiters {
				waiting++
			}
		}
	}
	s, idle := w.word, !w.word.has(taken)
	switch {
	case r.manual:
		return ""
	case idle != (w.holder == 0):
		return "the word is wrong about the turn"
	case read > 1:
		return "two read events"
	case s.has(closed):
		return ""
	case s.has(away) && s.sleepers() > 0 && idle:
		return "somebody is away while others sleep"
	case s.has(away) && !w.timer && w.actors[modelTimer] == 0 && starting == 0:
		return "somebody is away without a timer"
	case s.reader() == nobody && idle && !s.has(away):
		return "nobody reads"
	case !still || w.broken: // as long as nobody polls, nobody knows
	case waiting > 0 && (!w.on || read == 0):
		return fmt.Sprintf("%d wait until the timer is due", waiting)
	case waiting == 0 && !(w.on && read == 1) && !s.has(away):
		return "the CQ is not covered"
	}
	return ""
}

// actor returns the name of a goroutine.
func (r *modelRun) actor(i int) string {
	switch i {
	case modelPoller:
		return "Run"
	case modelTimer:
		return "look"
	case modelEnd:
		return "the end"
	case modelStop:
		return "Stop"
	case tookPlace:
		return "-"
	}
	return [...]string{"nobody", "WaitSignal", "Wait", "Sleep", "CatchUp", "PollWait"}[r.does[i]]
}

// wrongAtEnd describes what is wrong with a state from which nothing happens any more.
func (r *modelRun) wrongAtEnd(w *world) string {
	for i := range modelWaiters {
		if w.actors[i] != 0 {
			return "a wait does not end"
		}
	}
	switch {
	case r.manual:
		return ""
	case w.word.has(closed):
		if w.actors[modelPoller] != 0 || w.word.has(taken) || w.word.sleepers() > 0 {
			return "the end is not at rest"
		}
		return ""
	}
	op, _, _ := r.programs[modelPoller].Next(w.actors[modelPoller])
	if s := w.word &^ recent; s != 0 || !w.on || w.queue != (posts{}) || op != "Source.ReadEvents" {
		return "the end is not at rest"
	}
	return ""
}

// outcome is what is known of a run: how many states there are, the first violation, or "", and how it came about.
type outcome struct {
	states int
	wrong  string
	path   []string
}

// explore visits all states.
func (r *modelRun) explore() (o outcome, err error) {
	if err := r.compile(); err != nil {
		return o, err
	}
	var m machine
	first := r.first(&m)
	number, list := map[world]int32{first: 0}, []world{first}
	type edge struct{ from, to int32 }
	edges, ends := []edge(nil), []int32(nil)
	cause := []int32{0} // the state that each was found from
	who := []int8{tookPlace}
	fail := func(i int32, wrong string) (outcome, error) {
		o.states, o.wrong = len(list), wrong
		for ; i > 0; i = cause[i] {
			where, from := "", &list[cause[i]]
			if who[i] >= 0 {
				_, _, where = r.programs[who[i]].Next(from.actors[who[i]])
			}
			o.path = append(o.path, fmt.Sprintf("%-10s %-22s %v", r.actor(int(who[i])), where, list[i].word))
		}
		slices.Reverse(o.path)
		return o, nil
	}
	for i := int32(0); int(i) < len(list); i++ {
		wrong := ""
		found := func(w world, what int, bad string) {
			n, ok := number[w]
			if !ok {
				n = int32(len(list))
				number[w] = n
				list, cause, who = append(list, w), append(cause, i), append(who, int8(what))
			}
			edges = append(edges, edge{i, n})
			if bad != "" && wrong == "" {
				wrong = fmt.Sprintf("%s: %s", r.actor(what), bad)
			}
		}
		w, before := list[i], len(edges)
		r.promptly(&m, &w, found)
		still := len(edges) == before
		if wrong == "" {
			wrong = r.wrongIn(&w, still)
		}
		if wrong != "" {
			return fail(i, wrong)
		}
		r.perhaps(&m, &w, func(w world) { found(w, tookPlace, "") })
		if len(edges) == before {
			if wrong := r.wrongAtEnd(&w); wrong != "" {
				return fail(i, wrong)
			}
			ends = append(ends, i)
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
			return fail(int32(i), "no way to an end")
		}
	}
	o.states = len(list)
	return o, nil
}

func (o outcome) String() string {
	if o.wrong == "" {
		return fmt.Sprintf("%d states", o.states)
	}
	return fmt.Sprintf("after %d states: %s\n%s", o.states, o.wrong, strings.Join(o.path, "\n"))
}
