package spin

//lint:file-ignore SA2001 what is tested is the lock

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// No addition is lost, with one processor and with several.
func TestLock(t *testing.T) {
	for _, procs := range []int{1, 2, 4} {
		before := runtime.GOMAXPROCS(procs)
		var l Lock
		var wg sync.WaitGroup
		n := 0
		for range 8 {
			wg.Go(func() {
				for i := range 20000 {
					l.Lock()
					n++
					if i%512 == 7 {
						runtime.Gosched()
					}
					l.Unlock()
				}
			})
		}
		wg.Wait()
		runtime.GOMAXPROCS(before)
		if n != 160000 {
			t.Errorf("%d processors: %d, want 160000", procs, n)
		}
	}
}

func TestTryLock(t *testing.T) {
	var l Lock
	if !l.TryLock() || l.TryLock() {
		t.Error("a free lock is taken once")
	}
	l.Unlock()
	if !l.TryLock() {
		t.Error("an unlocked lock is not free")
	}
	off := Lock{Off: true}
	off.Lock()
	if !off.TryLock() {
		t.Error("a lock that is off was taken")
	}
}

// A goroutine that locks once gets the lock, though others lock and unlock it all the time.
func TestNobodyStarves(t *testing.T) {
	for _, procs := range []int{1, 2, 4} {
		before := runtime.GOMAXPROCS(procs)
		var l Lock
		var wg sync.WaitGroup
		var stop atomic.Bool
		for range 3 {
			wg.Go(func() {
				for !stop.Load() {
					l.Lock()
					for i := range guarded {
						guarded[i]++
					}
					l.Unlock()
				}
			})
		}
		for range 20 {
			l.Lock()
			l.Unlock()
			runtime.Gosched()
		}
		stop.Store(true)
		wg.Wait()
		runtime.GOMAXPROCS(before)
	}
}
