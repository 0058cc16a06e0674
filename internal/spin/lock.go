// Package spin is a lock for critical sections of some ten instructions: posting and polling. A goroutine that takes it
// many times in a row comes to own it, and then takes it without a locked instruction until another goroutine wants it
// (owner.go). Otherwise taking it costs one locked instruction and giving it back a plain store, where sync.Mutex needs
// two locked ones. Nobody sleeps in a queue: who finds it taken yields, and after a while sleeps for microseconds, so
// that a section that lasts (a QP that is destroyed) costs little.
package spin

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Lock is a mutual exclusion lock. The zero value is unlocked. It must not be copied. As with sync.Mutex, another
// goroutine than the one that locked it may unlock it, and locking it twice waits for ever.
type Lock struct {
	owner uintptr // the g that owns it plus the number of its flag, or 0
	// flags: 1 in flags[0] says that the lock is held, or owned. Each later flag belongs to one owner, who holds the
	// lock while it is 1.
	flags [maxOwners + 1]uint32
	flag  uint32 // the flag that Unlock clears: of the holder, and of who holds waiting
	Off   bool   // Lock and Unlock do nothing: one goroutine at a time uses what it guards. Set before first use.

	late uint32 // 1: somebody has waited for long, and who comes now waits behind

	// For the holder of flags[0] only.
	owners  uint8  // flags that were given away
	streak  uint32 // how often last came again, and nobody else between
	waiting sync.Mutex
	last    uintptr // a g
	latest  uintptr // the g whose flag is flags[owners]
}

// Lock takes the lock.
func (l *Lock) Lock() {
	if !l.Off {
		take(l)
	}
}

// TryLock takes the lock if nobody holds it, and reports whether it did.
func (l *Lock) TryLock() bool { return l.Off || tryTake(l) }

// Unlock gives the lock back.
func (l *Lock) Unlock() {
	if !l.Off {
		release(&l.flags[l.flag%(maxOwners+1)])
	}
}

// wait takes the lock in competition with others. All but one of them sleep in waiting.
//
//go:noinline
//lint:ignore U1000 called in assembly
func wait(l *Lock) {
	l.waiting.Lock()
	var since time.Time
	for i := 0; !l.claim(); i++ {
		if i < looks {
			continue
		}
		if i == looks {
			since = time.Now()
		} else if time.Since(since) > patience {
			atomic.StoreUint32(&l.late, 1)
		}
		// The holder may have been preempted: others run.
		if i < 4*looks {
			runtime.Gosched()
		} else {
			time.Sleep(min(time.Duration(i)*time.Microsecond, time.Millisecond))
		}
	}
	atomic.StoreUint32(&l.late, 0)
	l.waiting.Unlock()
}

const (
	looks    = 16               // at the lock before anything else
	patience = time.Millisecond // what sync.Mutex has: then who comes waits behind
)
