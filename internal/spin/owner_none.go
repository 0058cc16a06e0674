//go:build !(linux && amd64 && go1.25 && !go1.28 && !race)

package spin

import "sync/atomic"

const maxOwners = 0

func take(l *Lock) {
	if !tryTake(l) {
		wait(l)
	}
}

func tryTake(l *Lock) bool { return atomic.LoadUint32(&l.late) == 0 && l.claim() }

func (l *Lock) claim() bool { return atomic.CompareAndSwapUint32(&l.flags[0], 0, 1) }

// Prepare does nothing here.
func Prepare() {}
