package engine

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/loop"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
)

// makeThreads divides the links among threads.
func (r *run) makeThreads(links []*loop.Link) {
	each := len(links) / r.plan.ThreadCount()
	for i, t := range r.threads {
		t.sends, t.recvs = r.SendCQ(i), r.RecvCQ(i)
		t.first, t.links = i*each, links[i*each:][:each]
		loop.Number(t.links)
	}
}

// abort ends all loops with an error; the first one counts.
func (r *run) abort(err error) {
	for _, t := range r.threads {
		t.mon.Abort(err)
	}
}

// moved returns how many messages all threads have moved so far.
func (r *run) moved() (sum measure.Count) {
	for _, t := range r.threads {
		sum = sum.Plus(t.count.Load())
	}
	return sum
}

// begun returns the tick at which the first of all threads began to move messages, 0 before.
func (r *run) begun() (first int64) {
	for _, t := range r.threads {
		if at := t.count.Begun(); at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}

// restart makes the threads ready for another size.
func (r *run) restart() {
	for _, t := range r.threads {
		t.count.Reset()
		t.over.Store(false)
	}
}

// each runs a loop in every thread. The first that fails ends the others, and its error is returned.
func (r *run) each(cancel context.CancelCauseFunc, run func(i int) error) error {
	if len(r.threads) == 1 {
		wakeScheduler()
		return run(0) // not locked to its thread: it passes through Go's scheduler anyway
	}
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	for i, t := range r.threads {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			wakeScheduler()
			err := run(i)
			t.over.Store(true)
			if err == nil {
				return
			}
			once.Do(func() {
				first = fmt.Errorf("thread %d of %d: %w", i+1, len(r.threads), err)
				r.abort(first)
				cancel(first)
			})
		})
	}
	wg.Wait()
	return first
}

// wakeScheduler wakes the thread of Go's scheduler that reads from the network while all processors are busy. It
// sleeps, for up to a minute, once all were idle, and what came from the network does not wake it: a loop that begins
// to poll then, and makes no system call that the scheduler knows of, hears of no peer that leaves.
func wakeScheduler() { _, _ = os.Lstat("/") }

// sum returns what the threads did of a size.
func (r *run) sum(parts []measure.Size) measure.Size {
	if len(parts) == 1 {
		return parts[0]
	}
	s := measure.Sum(parts, r.perTick())
	s.Threads = parts
	return s
}

// perTick is how many seconds a tick has, as it was known after the last loop: all figures of a size have one reading.
func (r *run) perTick() float64 {
	if r.tick == 0 {
		r.readClock()
	}
	return r.tick
}

func (r *run) readClock() { r.tick = r.clk.Rate() / 1e9 }

// calm keeps the runtime from meddling with loops until the function that it returns.
//
// With one processor no idle one is woken when the loop passes through the
// scheduler, only to find that there is nothing to do; and the collector has
// no business in a measurement.
func calm(procs int) (restore func()) {
	procs = runtime.GOMAXPROCS(procs)
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	return func() {
		debug.SetGCPercent(percent)
		runtime.GOMAXPROCS(procs)
	}
}
