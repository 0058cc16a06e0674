//go:build linux

package engine

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

const housekeeping = int64(time.Millisecond) // look at QPs in ERR

// Engine executes the work requests of a fabric: the loop, and the lists of what it looks at. Its methods of
// [hca.Engine] want the fabric's lock held. Its parts have the fields that only they write.
type Engine struct {
	base
	Hooks Hooks // change it with the fabric's lock held
	done  chan struct{}

	// What it looks at.
	pages     []*hca.UAR
	erred     []*hca.QP // in ERR: receives posted later are flushed
	nextErred int       // of them that is looked at next
	nextHouse int64     // next look at QPs in ERR
	cqs       []*hca.CQ // scratch

	states  *states
	sends   *sendQueues
	comps   *completions
	batches *batcher
	recvs   *receives
	req     *requester
	resp    *responder
	grams   *datagrams
	wire    *switcher
	x       exchange // at hand
}

// New makes an engine for f; the caller gives it to [hca.Fabric.SetEngine] and calls [Engine.Run] in a goroutine.
func New(f *hca.Fabric, c Config) *Engine {
	c.fill()
	e := &Engine{done: make(chan struct{})}
	win, io, b := new(window), newScratch(c.Batch), newBatch(c.Batch)
	e.base = base{f: f, c: &c, hooks: &e.Hooks, tr: &tracer{hooks: &e.Hooks}, turns: &turns{}, win: win, b: b, io: io,
		ready:  &readyList{cond: sync.NewCond(&f.Mutex), qps: make([]*hca.QP, 0, 1024)},
		timers: &timers{heap: make([]timer, 0, 256)}, routes: &routes{f: f}}
	e.strict = &checks{f: f, c: &c, io: io, win: win, turns: e.turns}
	e.states = &states{e.base}
	e.sends = &sendQueues{base: e.base, states: e.states}
	e.comps = &completions{base: e.base, states: e.states, later: make([]pending, 0, cap(b.cqes)),
		toNotify: make([]*hca.CQ, 0, 64)}
	e.recvs = &receives{base: e.base, states: e.states}
	l := &lists{base: e.base, src: make([]piece, 0, 128), dst: make([]piece, 0, 128)}
	e.batches = &batcher{base: e.base, lists: l, comps: e.comps, recvs: e.recvs}
	m := messages{e.base, e.states, l, e.comps, e.recvs, e.batches}
	e.req = &requester{messages: m, sends: e.sends}
	e.resp = &responder{messages: m, req: e.req}
	e.grams = &datagrams{messages: m, req: e.req}
	e.wire = &switcher{messages: m, sends: e.sends, req: e.req}
	return e
}

// Run is the loop; it returns after [Engine.Stop].
func (e *Engine) Run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(e.done)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	e.f.Mutex.Lock()
	defer e.f.Mutex.Unlock()
	last := nanos()
	for !e.turns.stop {
		if len(e.pages) == 0 && len(e.ready.qps) == 0 {
			e.ready.cond.Wait()
			last = nanos()
			continue
		}
		if e.turn() {
			last = nanos()
			e.f.Mutex.Unlock()
			e.f.Mutex.Lock()
			continue
		}
		idle := e.turns.now - last
		if idle < int64(spin) {
			continue
		}
		d := e.pause(idle)
		e.f.Mutex.Unlock()
		nap(d)
		e.f.Mutex.Lock()
	}
}

// Stop ends the loop and waits for it.
func (e *Engine) Stop() {
	e.f.Mutex.Lock()
	e.turns.stop = true
	e.ready.cond.Broadcast()
	e.f.Mutex.Unlock()
	<-e.done
}

func (e *Engine) pause(idle int64) int64 {
	i := 0
	for i < len(pauses)-1 && idle >= int64(pauses[i].idle) {
		i++
	}
	d := int64(pauses[i].pause)
	if len(e.timers.heap) > 0 {
		d = min(d, max(e.timers.heap[0].at-e.turns.now, int64(pauses[0].pause)))
	}
	return d
}

// turn looks everywhere once and works for a bounded time. It reports whether there was anything to do.
func (e *Engine) turn() (worked bool) {
	e.turns.now = nanos()
	e.turns.limit = e.turns.now + int64(e.c.Turn)
	worked = e.scan()
	for n := len(e.ready.qps); n > 0 && len(e.ready.qps) > 0; n-- {
		qp := e.ready.first()
		e.sends.foresee(qp)
		e.batches.merge(true)
		e.exec(qp)
		worked = true
		if nanos() > e.turns.limit {
			break
		}
	}
	e.close()
	e.comps.writeLater()
	e.comps.notify()
	if len(e.timers.heap) > 0 && e.expire() { // after what was rung for: events of it come first
		worked = true
	}
	if e.turns.now >= e.nextHouse {
		e.nextHouse = e.turns.now + housekeeping
		e.watchErred()
		e.strict.audit(e.pages)
	}
	return worked
}

// expire runs what is due.
func (e *Engine) expire() (worked bool) {
	for len(e.timers.heap) > 0 && e.timers.heap[0].at <= e.turns.now {
		t := e.timers.pop()
		switch {
		case t.qp != nil && t.seq == t.qp.Run.Timer && !t.qp.Run.Dead:
			t.qp.Run.Wait = waitNone
			e.ready.push(t.qp)
			worked = true
		case t.cq != nil && t.seq == t.cq.Run.Timer && !t.cq.Run.Dead:
			e.batches.cqTimer(t.cq)
			worked = true
		}
	}
	return worked
}
