//go:build linux && (amd64 || arm64) && !pureverbs_native

package ccall

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// stressTime is how long TestStress takes: PUREVERBS_STRESS ("60s"), or a few
// seconds.
func stressTime(t *testing.T) time.Duration {
	v := os.Getenv("PUREVERBS_STRESS")
	if v == "" {
		return 3 * time.Second
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatalf("PUREVERBS_STRESS: %v", err)
	}
	return d
}

// counter is a Writer that counts.
type counter struct{ n atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// TestStress calls C from many goroutines in every way while the runtime does all
// that it can do to them: collecting garbage and moving stacks, sampling, tracing,
// stopping the world for stack dumps, signals to every thread, threads that end.
func TestStress(t *testing.T) {
	d := stressTime(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(6))
	defer debug.SetGCPercent(debug.SetGCPercent(1))

	s := &stress{stop: make(chan struct{}), calls: make(map[string]*atomic.Int64)}
	for _, name := range []string{"add3", "errno_keeps", "thread_keeps", "heap_keeps", "deep", "clobber",
		"result", "fill"} {
		addr := fn(t, name)
		switch name {
		case "add3":
			s.add3 = addr
		case "errno_keeps":
			s.errnoKeeps = addr
		case "thread_keeps":
			s.threadKeeps = addr
		case "heap_keeps":
			s.heapKeeps = addr
		case "deep":
			s.deep = addr
		case "clobber":
			s.clobber = addr
		case "result":
			s.result = addr
		case "fill":
			s.fill = addr
		}
	}

	var profile, traced counter
	// Sooner than pprof's 100 a second, whose own request the runtime then refuses
	// with a line on stderr.
	runtime.SetCPUProfileRate(2000)
	if err := pprof.StartCPUProfile(&profile); err != nil {
		t.Fatal(err)
	}
	if err := trace.Start(&traced); err != nil {
		t.Fatal(err)
	}
	var before runtime.MemStats
	runtime.ReadMemStats(&before)

	for _, c := range callers {
		s.start(c.name+" add", 2, func(r *rand.Rand) string { return s.add(r, c.call) })
		s.start(c.name+" libc", 2, func(r *rand.Rand) string { return s.libc(r, c.call) })
		s.start(c.name+" deep C stack", 1, func(r *rand.Rand) string { return s.deepC(r, c.call) })
		s.start(c.name+" growing stack", 2, func(r *rand.Rand) string { return s.grow(r, c.call) })
		s.start(c.name+" panic", 1, func(r *rand.Rand) string { return s.panics(r, c.call) })
		s.start(c.name+" dying thread", 1, func(r *rand.Rand) string { return s.dying(r, c.call) })
		s.start(c.name+" registers", 1, func(r *rand.Rand) string { return s.registers(c.call) })
	}
	s.start("control errno", 2, s.control)
	s.start("control memory", 2, s.memory)
	s.start("garbage collection", 1, func(*rand.Rand) string { runtime.GC(); return "" })
	s.start("stack dumps", 1, func(*rand.Rand) string {
		buf := make([]byte, 1<<16)
		runtime.Stack(buf, true)
		if err := pprof.Lookup("goroutine").WriteTo(&counter{}, 0); err != nil {
			return err.Error()
		}
		time.Sleep(time.Millisecond)
		return ""
	})
	s.start("signals", 1, s.signals)

	time.Sleep(d)
	// Each has its turn, on a busy machine too.
	for limit := time.Now().Add(4 * time.Minute); s.idle() != "" && time.Now().Before(limit); {
		time.Sleep(10 * time.Millisecond)
	}
	close(s.stop)
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(4*time.Minute + d):
		buf := make([]byte, 1<<20)
		t.Fatalf("the goroutines do not end:\n%s", buf[:runtime.Stack(buf, true)])
	}
	trace.Stop()
	pprof.StopCPUProfile()

	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	for _, f := range s.failures {
		t.Error(f)
	}
	var total int64
	for _, n := range s.calls {
		total += n.Load()
	}
	if name := s.idle(); name != "" {
		t.Errorf("%s never ran", name)
	}
	if after.NumGC-before.NumGC < 3 || traced.n.Load() == 0 || profile.n.Load() == 0 {
		t.Errorf("%d collections, %d bytes of trace, %d of profile: that was no stress", after.NumGC-before.NumGC,
			traced.n.Load(), profile.n.Load())
	}
	name, why := HotPath()
	t.Logf("%s, %s (%s): %d rounds, %d collections, %d KiB of trace, %d of profile in %v", runtime.Version(), name, why,
		total, after.NumGC-before.NumGC, traced.n.Load()>>10, profile.n.Load()>>10, d)
}

type caller func(fn, a1, a2, a3 uintptr) uintptr

type stress struct {
	stop chan struct{}
	wg   sync.WaitGroup

	mu       sync.Mutex
	failures []string
	calls    map[string]*atomic.Int64

	add3, errnoKeeps, threadKeeps, heapKeeps, deep, clobber, result, fill uintptr
}

// start runs n goroutines that do f until told to stop, or until it says what went
// wrong.
func (s *stress) start(name string, n int, f func(*rand.Rand) string) {
	count := new(atomic.Int64)
	s.mu.Lock()
	s.calls[name] = count
	s.mu.Unlock()
	for i := range n {
		s.wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 42))
			for {
				select {
				case <-s.stop:
					return
				default:
				}
				if what := f(r); what != "" {
					s.mu.Lock()
					s.failures = append(s.failures, name+": "+what)
					s.mu.Unlock()
					return
				}
				count.Add(1)
			}
		})
	}
}

// idle returns one that has not done a round yet.
func (s *stress) idle() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, n := range s.calls {
		if n.Load() == 0 && len(s.failures) == 0 {
			return name
		}
	}
	return ""
}

func (s *stress) add(r *rand.Rand, call caller) string {
	for range 100 {
		a, b, c := int(r.Uint64()), int(r.Uint64()), int(r.Uint64())
		if got := int(call(s.add3, uintptr(a), uintptr(b), uintptr(c))); got != a+b+c {
			return fmt.Sprintf("add3(%d, %d, %d) = %d", a, b, c, got)
		}
	}
	return ""
}

// libc does what needs the thread's own C data.
func (s *stress) libc(r *rand.Rand, call caller) string {
	v, turns := uintptr(1+r.IntN(130)), uintptr(r.IntN(2000))
	switch {
	case call(s.errnoKeeps, v, turns, 0) != 1:
		return "errno changed while C ran"
	case call(s.threadKeeps, v, turns, 0) != 1:
		return "thread-local data changed while C ran"
	case call(s.heapKeeps, 1+uintptr(r.IntN(20000)), 0, 0) != 1:
		return "malloc's memory changed while C ran"
	}
	return ""
}

func (s *stress) deepC(r *rand.Rand, call caller) string {
	n := uintptr(1 + r.IntN(600))
	if got := call(s.deep, n, 0, 0); got != n {
		return fmt.Sprintf("deep(%d) = %d", n, int(got))
	}
	return ""
}

// grow calls C at the end of a deep recursion on a fresh goroutine's small stack.
func (s *stress) grow(r *rand.Rand, call caller) string {
	depth := r.IntN(2000)
	result := make(chan int)
	go func() { result <- s.recurse(depth, call) }()
	if got, want := <-result, depth*(depth+1)/2; got != want {
		return fmt.Sprintf("recursion to %d gives %d, want %d", depth, got, want)
	}
	return ""
}

//go:noinline
func (s *stress) recurse(n int, call caller) int {
	if n == 0 {
		return 0
	}
	var pad [64]byte
	pad[n%64] = byte(n)
	sum := s.recurse(n-1, call)
	if n%16 == 0 {
		sum = int(call(s.add3, uintptr(sum), 0, 0))
	}
	if pad[n%64] != byte(n) {
		return -1
	}
	return sum + n
}

// panics calls C in a function, its deferred function and after recovery.
func (s *stress) panics(r *rand.Rand, call caller) (what string) {
	n := r.IntN(1000)
	got := func() (got int) {
		defer func() {
			if v := recover(); v != n {
				got = -1
				return
			}
			got = int(call(s.add3, uintptr(got), uintptr(n), 1))
		}()
		got = int(call(s.add3, uintptr(n), 2, 3))
		panic(n)
	}()
	if got != 2*n+6 {
		return fmt.Sprintf("after a panic the sum is %d, want %d", got, 2*n+6)
	}
	return ""
}

// dying calls C on a thread that ends with its goroutine.
func (s *stress) dying(r *rand.Rand, call caller) string {
	result := make(chan string)
	go func() {
		runtime.LockOSThread()
		what := s.libc(r, call)
		if what == "" && call(s.deep, 100, 0, 0) != 100 {
			what = "deep(100) failed"
		}
		result <- what
	}()
	what := <-result
	time.Sleep(time.Millisecond)
	return what
}

// registers keeps values of all kinds across calls that overwrite C's registers.
func (s *stress) registers(call caller) string {
	x, zero := 1.0, [8]uint64{}
	p := &[4]int{1, 2, 3, 4}
	for i := range 50 {
		if call(s.clobber, 0, 0, 0) != 42 {
			return "clobber failed"
		}
		zero = [8]uint64{}
		x += 0.5
		p = &[4]int{p[0], p[1], p[2], i}
	}
	if zero != [8]uint64{} || x != 26 || *p != [4]int{1, 2, 3, 49} {
		return fmt.Sprintf("values were lost: %v %v %v", zero, x, *p)
	}
	return ""
}

func (s *stress) control(r *rand.Rand) string {
	want := syscall.Errno(1 + r.IntN(130))
	if err := Minus1(s.result, word(-1), uintptr(want)); err != want {
		return fmt.Sprintf("errno %v, want %v", err, want)
	}
	if _, err := Ptr(s.result, 0, 0); err != syscall.EINVAL {
		return fmt.Sprintf("NULL with errno 0 is %v, want EINVAL", err)
	}
	return ""
}

// signals sends each thread the signals that the runtime uses itself.
func (s *stress) signals(r *rand.Rand) string {
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil || len(tasks) == 0 {
		return fmt.Sprintf("no threads in /proc/self/task: %v", err)
	}
	for range 20 {
		for _, task := range tasks {
			tid, err := strconv.Atoi(filepath.Base(task))
			if err != nil {
				return err.Error()
			}
			sig := syscall.SIGURG
			if r.IntN(2) == 0 {
				sig = syscall.SIGPROF
			}
			// The thread may have ended.
			if _, _, e := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(tid),
				uintptr(sig)); e != 0 && e != syscall.ESRCH {
				return "tgkill: " + e.Error()
			}
		}
		time.Sleep(20 * time.Microsecond)
	}
	return ""
}
