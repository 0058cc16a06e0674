// Package spin provides a lock for critical sections of a few dozen instructions, such as posting and polling. A
// goroutine that locks it many times in a row becomes its owner, and then locks it without a locked instruction until
// another goroutine wants it (see owner.go). Otherwise Lock costs one locked instruction and Unlock a plain store,
// where sync.Mutex takes two locked instructions. There is no queue of sleepers: a goroutine that finds the lock held
// yields, and after a while sleeps for microseconds, so that waiting for a long section (such as destroying a QP) costs
// little.
package spin

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Lock is a mutual exclusion lock. The zero value is unlocked. It must not be copied. As with sync.Mutex, a goroutine
// may unlock a Lock that another one locked, and a goroutine that locks it twice deadlocks.
type Lock struct {
	owner uintptr // the owner's g plus the index of its flag, or 0
	// flags[0] is 1 while the lock is held or has an owner. Each other flag belongs to one owner, which holds the lock
	// while the flag is 1.
	flags [maxOwners + 1]uint32
	flag  uint32 // index of the flag that Unlock clears; only the holder and the holder of waiting write it
	Off   bool   // Lock and Unlock do nothing, because one goroutine at a time uses the data. Set it before first use.

	late   uint32  // 1: a goroutine has waited for long, and newcomers wait behind it
	streak uint32  // how many times in a row last has locked it; for the holder of flags[0], as are those that follow
	last   uintptr // the g that locked it last

	// An uncontended Lock seldom uses these.
	latest  uintptr // the g whose flag is flags[owners]
	waiting sync.Mutex
	owners  uint8 // flags that have been assigned
}

// Lock locks l, and waits while another goroutine holds it.
func (l *Lock) Lock() {
	if !l.Off {
		take(l)
	}
}

// TryLock locks l if it is free, and reports whether it did.
func (l *Lock) TryLock() bool { return l.Off || tryTake(l) }

// Unlock unlocks l.
func (l *Lock) Unlock() {
	if !l.Off {
		release(&l.flags[l.flag%(maxOwners+1)])
	}
}

// wait locks l in competition with other goroutines. All but one of those wait for the mutex waiting.
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
		// The holder may have been preempted: let others run.
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
	looks    = 16               // attempts before the goroutine yields
	patience = time.Millisecond // after this long newcomers wait behind, as with sync.Mutex
)
