//go:build linux && amd64 && go1.25 && !go1.28 && !race

package spin

import (
	"runtime"
	"sync/atomic"
	"syscall"
)

// Ownership, an asymmetric Dekker lock.
//
//	owner, in take                  another goroutine, in claim, with waiting held
//	1. owner is me, with flag f?    1. owner = 0
//	2. flags[f] is 0?               2. membarrier
//	3. flags[f] = 1                 3. flags[f] is 0? the lock is mine; else look again
//	4. owner is still me, with f?
//	   the lock is mine
//	   else flags[f] = 0, and take the long way
//
// Each may be preempted between any two steps. The model of this is in model_test.go.
//
// Not both. Membarrier makes every thread of the process pass a full barrier between its begin and its end. If the
// owner's comes before its step 4, step 4 sees 0. If it comes after, so does the store of step 3 lie before it, and the
// other one's step 3 sees 1. A goroutine that moved to another thread between the two steps changes nothing: the
// scheduler orders what it did on the first thread before what it does on the second, so its store is seen by all who
// see the second thread's barrier. A thread that does not run passed the barrier when it was switched out, and will
// again when it is switched in.
//
// Nothing is lost. Clearing owner only keeps the owner from entering again. It may be in for long (step 3 of the other
// one), and leaves as every holder does: Unlock clears flags[flag], and flag changes in the hands of a holder only.
// flags[0] stays 1 while there is an owner, and until claim has the lock, so that nobody gets past with the locked
// instruction.
//
// Late stores. Between its steps 1 and 4 a former owner may sleep for long, and then set and clear its flag. So a flag
// belongs to one goroutine for the life of the lock, and nobody but who waits for that flag sees late stores. The
// latest owner may own the lock any number of times with its flag: it is the one who would be late, and it is here.
// There are maxOwners flags; who comes when they are given away goes without.
//
// Who is who. A g is neither moved nor freed by the runtime. When its goroutine ends it serves another, which then owns
// the lock, too; the first one ended in none of the steps, and all its stores come before all of the other's.
//
// Owners are made and ended by who holds waiting. On x86 a store waits in its processor's buffer while later loads go
// ahead; no other order changes, so that only steps 3 and 4 need the barrier. A process that has forked without exec
// has no other thread that runs Go.

const (
	maxOwners = 3    // with g, their numbers fit into the bits that are 0 in the address of a g
	enough    = 1024 // times in a row: what ending ownership costs is less than what it gained
)

// canOwn says whether the process may use membarrier: unknown, asking, yes or no.
var canOwn atomic.Uint32

const (
	unknown = iota
	asking
	yes
	no
)

// take takes the lock: for its owner by steps 1 to 4, for others with a locked instruction.
//
//go:noescape
func take(l *Lock)

// tryTake is take for TryLock.
//
//go:noescape
func tryTake(l *Lock) bool

// try is tryTake when the lock is held, or somebody else's.
//
//lint:ignore U1000 called in assembly
func try(l *Lock) bool {
	if !l.waiting.TryLock() {
		return false // who waits comes first
	}
	ok := l.claim()
	l.waiting.Unlock()
	return ok
}

// claim takes the lock if nobody holds it. Afterwards nobody owns it, or it is held and nobody will when it is given
// back. Preconditions: waiting is held.
func (l *Lock) claim() bool {
	if atomic.CompareAndSwapUint32(&l.flags[0], 0, 1) {
		l.streak = 0
		return true
	}
	if l.flag == 0 {
		return false
	}
	if l.owner != 0 {
		atomic.StoreUintptr(&l.owner, 0)
		barrier()
	}
	if atomic.LoadUint32(&l.flags[l.flag]) != 0 {
		return false
	}
	l.flag, l.streak = 0, 0
	return true
}

// own makes the goroutine, which is last, the owner.
// Preconditions: the lock is held by flags[0].
//
//lint:ignore U1000 called in assembly
func own(l *Lock) {
	l.streak = 0
	if l.last != l.latest && l.owners == maxOwners || !registered() || !l.waiting.TryLock() {
		return
	}
	if l.last != l.latest {
		l.latest = l.last
		l.owners++
	}
	l.flag = uint32(l.owners)
	atomic.StoreUint32(&l.flags[l.flag], 1)
	atomic.StoreUintptr(&l.owner, l.last+uintptr(l.flag))
	l.waiting.Unlock()
}

//lint:ignore U1000 called in assembly
func tryOwn(l *Lock) bool {
	own(l)
	return true
}

// registered reports whether the process may use membarrier. It has to register with the kernel, which takes
// milliseconds: the first who asks gets no, and another goroutine does it.
func registered() bool {
	switch canOwn.Load() {
	case yes:
		return true
	case unknown:
		if canOwn.CompareAndSwap(unknown, asking) {
			go func() {
				if membarrier(registerPrivateExpedited) {
					canOwn.Store(yes)
				} else {
					canOwn.Store(no)
				}
			}()
		}
	}
	return false
}

// Commands of membarrier(2), include/uapi/linux/membarrier.h.
const (
	privateExpedited         = 1 << 3
	registerPrivateExpedited = 1 << 4
)

// barrierCommand is another one in tests.
var barrierCommand uintptr = privateExpedited

func membarrier(cmd uintptr) bool {
	_, _, e := syscall.Syscall(sysMembarrier, cmd, 0, 0)
	return e == 0
}

// barrier makes every thread that runs Go code pass a full barrier. What worked once may be forbidden since, by a
// seccomp filter: to stop the world does the same.
func barrier() {
	if !membarrier(barrierCommand) {
		canOwn.Store(no)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
	}
}
