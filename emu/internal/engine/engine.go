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

// Engine executes the work requests of a fabric. Its methods of [hca.Engine] want the fabric's lock held.
type Engine struct {
	f     *hca.Fabric
	c     Config
	Hooks Hooks // change it with the fabric's lock held

	cond *sync.Cond
	stop bool
	done chan struct{}

	// What it looks at.
	pages     []*hca.UAR
	ready     []*hca.QP // may have work, in turn
	erred     []*hca.QP // in ERR: receives posted later are flushed
	nextErred int       // of them that is looked at next
	timers    []timer
	epoch     uint64 // counts changes of QPs and ports, for cached peers

	// The turn.
	now       int64
	limit     int64 // when it ends
	nextHouse int64 // next look at QPs in ERR

	// The batch, and the WQE at hand.
	b        batch
	badSide  int  // side of the last batch that failed
	merging  bool // a batch may be left open
	yielding bool // others have the lock in the middle of a large message
	restarts int  // of a large message, because others changed something
	paged    bool // a region on demand was used in the batch
	win      window
	ahead    wqesAhead
	w        wqe
	x        exchange
	frames   frames
	src      []piece // of the message at hand
	dst      []piece

	// What follows a batch.
	held     []pending  // delayed completions
	later    []pending  // completions of several requesters, which are written together
	toNotify []*hca.CQ  // events to send when the batch is in memory
	broken   []*hca.CQ  // CQ errors to report then
	sigErrs  []*hca.QP  // to stop because of a wrong signature, when the batch is through
	limits   []*hca.SRQ // whose limit is to be checked when the batch is through

	strict checks
	rec    Record    // of the trace
	groups []*hca.QP // scratch: members of a multicast group
	cqs    []*hca.CQ // scratch
	io     scratch
}

// New makes an engine for f; the caller sets f.Engine and calls [Engine.Run] in a goroutine.
func New(f *hca.Fabric, c Config) *Engine {
	c.fill()
	e := &Engine{f: f, c: c, done: make(chan struct{})}
	e.cond = sync.NewCond(&f.Mutex)
	e.strict.e = e
	e.b.buf = make([]byte, c.Bounce+128*(2*c.Batch+2))
	e.b.giov, e.b.siov = spans(2*c.Batch+64), spans(6*c.Batch+64)
	e.b.before, e.b.uncounted = make([]part, 0, c.Batch), make([]uncounted, 0, c.Batch+1)
	e.b.cqes = make([]pending, 0, 2*c.Batch+2)
	e.later = make([]pending, 0, cap(e.b.cqes))
	e.io.cbuf, e.io.civ = make([]byte, 0, 128*(2*c.Batch+2)), spans(4*c.Batch+4)
	e.io.look = make([]byte, 4+len(e.win.buf))
	e.io.rec, e.io.riov = make([]byte, lookBytes), spans(lookChunk)
	e.io.places = make([]int, lookChunk)
	e.src, e.dst = make([]piece, 0, 128), make([]piece, 0, 128)
	e.timers, e.ready = make([]timer, 0, 256), make([]*hca.QP, 0, 1024)
	e.toNotify = make([]*hca.CQ, 0, 64)
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
	for !e.stop {
		if len(e.pages) == 0 && len(e.ready) == 0 {
			e.cond.Wait()
			last = nanos()
			continue
		}
		if e.turn() {
			last = nanos()
			e.f.Mutex.Unlock()
			e.f.Mutex.Lock()
			continue
		}
		idle := e.now - last
		if idle < int64(e.c.Spin) {
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
	e.stop = true
	e.cond.Broadcast()
	e.f.Mutex.Unlock()
	<-e.done
}

func (e *Engine) pause(idle int64) int64 {
	s := e.c.Sleeps
	i := 0
	for i < len(s)-1 && idle >= int64(s[i].Idle) {
		i++
	}
	d := int64(s[i].Pause)
	if len(e.timers) > 0 {
		d = min(d, max(e.timers[0].at-e.now, int64(s[0].Pause)))
	}
	return d
}

// turn looks everywhere once and works for a bounded time. It reports whether there was anything to do.
func (e *Engine) turn() (worked bool) {
	e.now = nanos()
	e.limit = e.now + int64(e.c.Turn)
	for _, u := range e.pages {
		if e.scan(u) {
			worked = true
		}
	}
	for n := len(e.ready); n > 0 && len(e.ready) > 0; n-- {
		qp := e.ready[0]
		copy(e.ready, e.ready[1:])
		e.ready = e.ready[:len(e.ready)-1]
		qp.Run.Queued = false
		e.foresee(qp)
		e.merging = true
		e.exec(qp)
		worked = true
		if nanos() > e.limit {
			break
		}
	}
	e.close()
	e.writeLater()
	e.notify()
	if len(e.timers) > 0 && e.expire() { // after what was rung for: events of it come first
		worked = true
	}
	if e.now >= e.nextHouse {
		e.nextHouse = e.now + housekeeping
		e.watchErred()
		e.strict.audit()
	}
	return worked
}

// push puts a QP in the list of those that may have work.
func (e *Engine) push(qp *hca.QP) {
	if !qp.Run.Queued && !qp.Run.Dead {
		qp.Run.Queued = true
		e.ready = append(e.ready, qp)
		e.cond.Signal()
	}
}
