//go:build linux && amd64 && go1.25 && !go1.28 && !race

package spin

//lint:file-ignore SA2001 what is tested is the lock

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// needOwners waits until registered has an answer from the kernel, and skips the test if it is no.
func needOwners(t testing.TB) {
	t.Helper()
	for registered(); canOwn.Load() == asking; registered() {
		time.Sleep(time.Millisecond)
	}
	if canOwn.Load() == no {
		t.Skip("SKIPPED: no membarrier")
	}
}

// earn locks and unlocks l until the goroutine should own it, and reports whether it does.
func (l *Lock) earn() bool {
	for range enough + 2 { // one to get it from its owner, one to be the last who came
		l.Lock()
		l.Unlock()
	}
	return l.owner != 0 && l.owner == l.last+uintptr(l.flag)
}

// elsewhere runs f in another goroutine.
func elsewhere(f func()) {
	done := make(chan bool)
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func TestOwner(t *testing.T) {
	needOwners(t)
	var l Lock
	for i := range enough {
		l.Lock()
		l.Unlock()
		if l.owner != 0 {
			t.Fatalf("owned after %d times", i+1)
		}
	}
	if !l.earn() || l.flag != 1 {
		t.Fatalf("not owned: %+v", &l)
	}
	l.Lock()
	if l.flags != [4]uint32{1, 1} || l.TryLock() {
		t.Errorf("the owner is not in: %v", l.flags)
	}
	l.Unlock()
	if !l.earn() {
		t.Error("TryLock took it from the owner for good")
	}
	l.Lock()
	elsewhere(func() {
		if l.TryLock() {
			t.Error("TryLock took what the owner holds")
		}
	})
	l.Unlock()
	if l.owner != 0 || l.flags[0] != 1 {
		t.Errorf("TryLock of another left the owner: %+v", &l)
	}
	elsewhere(func() {
		if !l.TryLock() || l.flag != 0 {
			t.Error("TryLock did not take what a former owner gave back")
		}
		l.Unlock()
	})
	if l.flags != [4]uint32{} {
		t.Errorf("a free lock has %v", l.flags)
	}
}

// worker starts a goroutine and returns a function that makes it run another one.
func worker(t testing.TB) func(func()) {
	work, done := make(chan func()), make(chan bool)
	t.Cleanup(func() { close(work) })
	go func() {
		for f := range work {
			f()
			done <- true
		}
	}()
	return func(f func()) {
		work <- f
		<-done
	}
}

// Each new owner gets a flag of its own, the latest owner gets the same flag again, and when all flags are assigned
// there are no new owners.
func TestHandOver(t *testing.T) {
	needOwners(t)
	var l Lock
	var workers [maxOwners + 1]func(func())
	for i := range workers {
		workers[i] = worker(t)
	}
	const last = maxOwners - 1
	for _, step := range []struct {
		worker int
		flag   uint32 // 0: it does not own the lock
	}{{0, 1}, {0, 1}, {1, 2}, {last, maxOwners}, {0, 0}, {maxOwners, 0}, {last, maxOwners}, {1, 0}, {last, maxOwners}} {
		workers[step.worker](func() {
			if owns := l.earn(); owns != (step.flag != 0) || l.flag != step.flag {
				t.Errorf("goroutine %d: owns %v, flag %d; want %d", step.worker, owns, l.flag, step.flag)
			}
		})
	}
}

// A goroutine that wants the lock while its owner holds it gets it afterwards.
func TestWaitForOwner(t *testing.T) {
	needOwners(t)
	var l Lock
	if !l.earn() {
		t.Fatal("not owned")
	}
	l.Lock()
	in, out := 1, make(chan bool)
	go func() {
		l.Lock()
		if in != 0 {
			t.Error("two hold the lock")
		}
		l.Unlock()
		close(out)
	}()
	for atomic.LoadUintptr(&l.owner) != 0 {
		runtime.Gosched()
	}
	in = 0
	l.Unlock()
	<-out
}

// Another goroutine may unlock, as with sync.Mutex.
func TestUnlockElsewhere(t *testing.T) {
	needOwners(t)
	var l Lock
	if !l.earn() {
		t.Fatal("not owned")
	}
	n := 0
	for range 3 {
		l.Lock()
		n++
		go func() {
			n++
			l.Unlock()
		}()
	}
	l.Lock()
	if n != 6 {
		t.Errorf("%d, want 6", n)
	}
}

// Goroutines hold the lock for long and short times, end as owners, change threads or keep theirs, and are preempted
// within the section and outside, while the garbage collector runs.
func TestOwnersStress(t *testing.T) {
	needOwners(t)
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for _, refused := range []bool{false, true} {
		if refused { // what worked is forbidden since
			barrierCommand = 1 << 30
		}
		for _, procs := range []int{1, 2, 4} {
			before := runtime.GOMAXPROCS(procs)
			owned, want := 0, 0
			for range rounds {
				var l Lock
				var wg sync.WaitGroup
				n, count := 0, 0 // what l guards
				for k := range 8 {
					want := &want
					times := 2*enough + 300*k
					*want += 4 * times
					wg.Go(func() {
						if k%4 == 3 {
							runtime.LockOSThread() // the thread ends with the goroutine
						}
						for burst := range 4 {
							for i := range times {
								switch {
								case i%3 == 2 && l.TryLock():
								default:
									l.Lock()
								}
								n++
								if l.flag != 0 {
									count++
								}
								if i%512 == 7*k {
									runtime.Gosched()
								}
								l.Unlock()
								if i%777 == 7*k {
									runtime.Gosched()
								}
							}
							if (burst+k)%4 == 0 {
								runtime.GC()
							}
						}
					})
				}
				wg.Wait()
				want -= n
				owned += count
				if refused {
					canOwn.Store(yes)
				}
			}
			runtime.GOMAXPROCS(before)
			if want != 0 {
				t.Errorf("%d processors: %d sections were lost", procs, want)
			}
			t.Logf("%d processors, refused %v: %d sections of owners", procs, refused, owned)
		}
	}
	barrierCommand = privateExpedited
}

// One goroutine uses the lock all the time and others now and then, which is what the lock is made for. The others
// always get it.
func TestOwnerAndVisitors(t *testing.T) {
	needOwners(t)
	var l Lock
	var wg sync.WaitGroup
	stop := make(chan bool)
	n, own := 0, 0
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for range 100 {
				l.Lock()
				if n++; l.flag != 0 {
					own++
				}
				l.Unlock()
			}
		}
	})
	visits := 0
	for before := 0; visits < 300; visits++ {
		// The owner owns it again.
		for l.Lock(); own == before; l.Lock() {
			l.Unlock()
			time.Sleep(100 * time.Microsecond)
		}
		before = own
		l.Unlock()
	}
	close(stop)
	wg.Wait()
	t.Logf("%d visits among %d, %d of the owner", visits, n, own)
}

// A lock on a stack moves with the stack.
func TestLockOnStack(t *testing.T) {
	needOwners(t)
	var grow func(depth int) int
	grow = func(depth int) int {
		var room [512]byte
		if depth == 0 {
			return int(room[0])
		}
		return grow(depth-1) + int(room[depth%512])
	}
	for depth := range 40 {
		elsewhere(func() {
			var l Lock
			for range 2 * enough {
				l.Lock()
				l.Unlock()
			}
			l.Lock()
			grow(depth)
			l.Unlock()
			if !l.TryLock() || l.TryLock() {
				t.Error("the lock changed with its place")
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	needOwners(t)
	var l, plain Lock
	plain.owners = maxOwners
	if !l.earn() || plain.earn() {
		t.Fatal("who owns what")
	}
	for name, l := range map[string]*Lock{"owned": &l, "plain": &plain} {
		if n := testing.AllocsPerRun(3*enough, func() {
			l.Lock()
			l.Unlock()
			if l.TryLock() {
				l.Unlock()
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestPrepare checks that the kernel is asked once, and that its answer comes without a lock's asking.
func TestPrepare(t *testing.T) {
	needOwners(t)
	defer canOwn.Store(canOwn.Swap(unknown))
	Prepare()
	if canOwn.Load() == unknown {
		t.Fatal("Prepare did not ask")
	}
	for canOwn.Load() == asking {
		time.Sleep(time.Millisecond)
	}
	if canOwn.Load() != yes {
		t.Error("the kernel said yes before, and no now")
	}
}
