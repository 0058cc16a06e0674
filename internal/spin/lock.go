// Package spin is a lock for critical sections of some ten instructions: posting and polling. Taking it costs one
// locked instruction and giving it back a plain store, where sync.Mutex needs two locked ones. Nobody sleeps in a
// queue: who finds it taken yields, and after a while sleeps for microseconds, so that a section that lasts (a QP that
// is destroyed) costs little.
package spin

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Lock is a mutual exclusion lock. The zero value is unlocked. It must not be copied.
type Lock struct {
	held uint32
	Off  bool       // Lock and Unlock do nothing: one goroutine at a time uses what it guards. Set before first use.
	wait sync.Mutex // of those who wait, all but one sleep here
}

// Lock takes the lock.
func (l *Lock) Lock() {
	if !l.Off && !atomic.CompareAndSwapUint32(&l.held, 0, 1) {
		l.lockSlow()
	}
}

// TryLock takes the lock if nobody holds it, and reports whether it did.
func (l *Lock) TryLock() bool { return l.Off || atomic.CompareAndSwapUint32(&l.held, 0, 1) }

// Unlock gives the lock back.
func (l *Lock) Unlock() {
	if !l.Off {
		release(&l.held)
	}
}

//go:noinline
func (l *Lock) lockSlow() {
	l.wait.Lock()
	for i := 0; !atomic.CompareAndSwapUint32(&l.held, 0, 1); i++ {
		pause(i)
	}
	l.wait.Unlock()
}

// pause passes the time between two looks at the lock. The holder may have been preempted: after a few looks others
// run.
func pause(i int) {
	switch {
	case i < 16:
	case i < 64:
		runtime.Gosched()
	default:
		time.Sleep(min(time.Duration(i)*time.Microsecond, time.Millisecond))
	}
}
