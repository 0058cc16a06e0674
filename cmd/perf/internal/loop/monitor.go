package loop

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tsc"
)

// Monitor lets others end a loop, and ends it when nothing comes any more.
type Monitor struct {
	_     cpu.CacheLinePad // another thread's may be next to it
	clk   *tsc.Clock
	stall int64 // ticks without a completion
	limit time.Duration
	turns bool // the ends take turns

	seldom uint32 // bits of spins, without the lowest, that are 0 when it is time to yield
	alone  int64  // ticks

	early func() bool          // if there is one: whether the peer may not have begun
	quiet func(now int64) bool // if there is one: whether nothing more is to be waited for
	spoke atomic.Int64         // ticks: when the peer came to its next step; 0: not yet

	flag atomic.Uint32
	why  atomic.Pointer[error]

	spins uint32
	since int64 // when idling began; 0: not yet known

	slice, rested int64 // ticks
	_             cpu.CacheLinePad
}

// NewMonitor returns a monitor that bears silence for limit. turns means that the two ends take turns.
func NewMonitor(clk *tsc.Clock, limit time.Duration, turns bool) *Monitor {
	return &Monitor{clk: clk, stall: clk.Ticks(limit), limit: limit, turns: turns, alone: clk.Ticks(alone),
		slice: clk.Ticks(slice)}
}

// slice is how long a loop runs before it passes through Go's scheduler. After 10 ms the scheduler
// would interrupt the loop by a signal, and take its processor away whenever it finds it in a post
// that enters the kernel, which costs context switches on every such post.
const slice = 8 * time.Millisecond

// rest passes through Go's scheduler if it is time to.
func (m *Monitor) rest(now int64) {
	if now-m.rested > m.slice {
		m.rested = now
		runtime.Gosched()
	}
}

// Abort ends the loop with an error; the first one counts.
func (m *Monitor) Abort(err error) {
	if m.why.CompareAndSwap(nil, &err) {
		m.flag.Store(1)
	}
}

// err returns the error of Abort.
func (m *Monitor) err() error {
	if p := m.why.Load(); p != nil {
		return *p
	}
	return nil
}

// Begin starts over, for another run.
func (m *Monitor) Begin() {
	m.Busy()
	m.spoke.Store(0)
}

// Busy records that something was done.
func (m *Monitor) Busy() { m.spins, m.since = 0, 0 }

// idle is called when there was nothing to do. It looks around now and then.
//
// Where two ends take turns it also lets others have the processor: the peer may have been put on
// the same one. A bandwidth loop does not: measured over SoftRoCE it lost a fifth by that.
func (m *Monitor) idle() error {
	m.spins++
	if m.spins%yieldEvery != 0 {
		return nil
	}
	if m.turns && m.spins&m.seldom == 0 {
		m.giveWay()
	}
	if m.spins%lookEvery != 0 {
		return nil
	}
	return m.look()
}

// giveWay lets others have the processor. While no other goroutine wants it, it does so less and less often: on the
// emulator, where each end had a processor, a median latency of 22 µs was 1 µs longer otherwise.
func (m *Monitor) giveWay() {
	before := m.clk.Now()
	yield()
	if m.clk.Now()-before > m.alone {
		m.seldom = 0
	} else if m.seldom < yieldLeast-yieldEvery {
		m.seldom = m.seldom<<1 | yieldEvery
	}
}

// A wait of yieldEvery polls is longer than the latency of any NIC, so that there the loop never yields.
const (
	yieldEvery = 256                  // polls between two yields, at least
	yieldLeast = 16 * yieldEvery      // and at most
	alone      = 2 * time.Microsecond // longest yield if no other goroutine wants the processor
	lookEvery  = 1024
)

// Spoke records that the peer has come to its next step.
func (m *Monitor) Spoke() { m.spoke.Store(m.clk.Now()) }

// Frames under way arrive within quietAfter after the peer has sent all of them. quietLeast is for how long nothing
// must have come where both ends wait for what is lost.
const (
	quietAfter = 200 * time.Millisecond
	quietLeast = 2 * time.Second
)

// errQuiet ends a loop that has waited for long enough for what may be lost.
var errQuiet = errors.New("quiet")

// ErrStalled means that completions stopped coming.
var ErrStalled = errors.New("no completion")

func (m *Monitor) look() error {
	if m.flag.Load() != 0 {
		return m.err()
	}
	now := m.clk.Now()
	m.rest(now)
	if m.quiet != nil && m.quiet(now) {
		return errQuiet
	}
	if m.since == 0 || m.early != nil && m.early() {
		m.since = now
	} else if now-m.since > m.stall {
		return m.Stalled()
	}
	return nil
}

// Stalled returns the error of a loop whose completions stopped coming.
func (m *Monitor) Stalled() error {
	return fmt.Errorf("%w for %v; the peer was stopped or runs with other options, or the device has lost "+
		"completions", ErrStalled, m.limit)
}
