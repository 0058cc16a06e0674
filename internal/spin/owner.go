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
// Each may be preempted between any two steps. model_test.go has a model of this.
//
// Why not both get the lock: membarrier makes every thread of the process pass a full barrier between its call and its
// return. If the owner's barrier comes before its step 4, step 4 sees owner = 0. If it comes after step 4, it also
// comes after the store of step 3, and the other goroutine's step 3 sees 1. It does not matter whether the owner moves
// to another thread between the two steps: the scheduler orders what the goroutine did on the first thread before what
// it does on the second, so a thread that sees the second thread's barrier sees the store. A thread that is not running
// passed a barrier when it was switched out, and passes one when it is switched in.
//
// Why nothing is lost: clearing owner only keeps the owner from entering again. It may hold the lock for long, while
// the other goroutine repeats its step 3, and leaves like every holder: Unlock clears flags[flag], and only a holder
// changes flag. flags[0] stays 1 while there is an owner and until claim has the lock, so the locked instruction of a
// third goroutine fails.
//
// Late stores: between its steps 1 and 4 a former owner may sleep for long, and then set and clear its flag. A flag
// therefore belongs to one goroutine for the life of the lock, and only a goroutine that waits for that flag sees the
// late stores. The latest owner may become the owner any number of times with the same flag: the late stores could only
// be its own, and it cannot be in two places. There are maxOwners flags. Once they are assigned, no other goroutine
// becomes an owner.
//
// Identity: the runtime neither moves nor frees a g. When its goroutine ends, the g is reused for another goroutine,
// which then owns the lock in its place. The first goroutine did not end within the steps, and all its stores come
// before those of the second.
//
// Only a goroutine that holds waiting makes or ends an owner. On x86 a store may wait in its processor's buffer while
// later loads go ahead. No other reordering happens, so only steps 3 and 4 need the barrier. After a fork without exec
// no other thread runs Go.

const (
	maxOwners = 3    // an index fits into the low bits of a g's address, which are 0
	enough    = 1024 // times in a row; ending ownership costs less than this many fast locks save
)

// canOwn reports whether the process may use membarrier: unknown, asking, yes or no.
var canOwn atomic.Uint32

const (
	unknown = iota
	asking
	yes
	no
)

// take locks l: by steps 1 to 4 for its owner, and with a locked instruction for others.
//
//go:noescape
func take(l *Lock)

// tryTake is take for TryLock.
//
//go:noescape
func tryTake(l *Lock) bool

// try continues tryTake when the lock is held or another goroutine owns it.
//
//lint:ignore U1000 called in assembly
func try(l *Lock) bool {
	if !l.waiting.TryLock() {
		return false // goroutines that wait come first
	}
	ok := l.claim()
	l.waiting.Unlock()
	return ok
}

// claim locks l if it is free, and reports whether it did. It ends ownership. Preconditions: waiting is held.
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

// own makes the calling goroutine, which is last, the owner. Preconditions: it holds the lock by flags[0].
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

// registered reports whether the process may use membarrier. Without an earlier Prepare the first call asks.
func registered() bool {
	switch canOwn.Load() {
	case yes:
		return true
	case unknown:
		Prepare()
	}
	return false
}

// Prepare has the kernel, in the background, prepare the process for goroutines that own locks, and returns at once.
//
// It takes the kernel milliseconds. Where GOMAXPROCS is 1, the goroutine that waits for it keeps the others from
// running until Go's scheduler looks, which is every 10 ms in a program that makes no system calls. So call it before
// posting and polling begin.
func Prepare() {
	if !canOwn.CompareAndSwap(unknown, asking) {
		return
	}
	go func() {
		if membarrier(registerPrivateExpedited) {
			canOwn.Store(yes)
		} else {
			canOwn.Store(no)
		}
	}()
}

// Commands of membarrier(2), include/uapi/linux/membarrier.h.
const (
	privateExpedited         = 1 << 3
	registerPrivateExpedited = 1 << 4
)

// barrierCommand is a variable for tests.
var barrierCommand uintptr = privateExpedited

func membarrier(cmd uintptr) bool {
	_, _, e := syscall.Syscall(sysMembarrier, cmd, 0, 0)
	return e == 0
}

// barrier makes every thread that runs Go code pass a full barrier. If membarrier fails, because a seccomp filter was
// installed since, stopping the world has the same effect.
func barrier() {
	if !membarrier(barrierCommand) {
		canOwn.Store(no)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
	}
}
