//go:build linux && (amd64 || arm64) && !pureverbs_native

package ccall

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// callers are the ways that take three words.
var callers = []struct {
	name string
	call func(fn, a1, a2, a3 uintptr) uintptr
}{{"Hot", Hot}, {"Slow", Slow}, {"Do", func(fn, a1, a2, a3 uintptr) uintptr {
	return Do(&Call{Fn: fn, A1: a1, A2: a2, A3: a3})
}}}

// TestHotPath fails where Hot is not what it should be here, so that nobody
// takes the fallback for the trampoline.
func TestHotPath(t *testing.T) {
	want := "g0"
	if os.Getenv(Env) == "fallback" {
		want = "cgocall"
	} else if !strings.HasPrefix(runtime.Version(), "go1.25") && !strings.HasPrefix(runtime.Version(), "go1.26") &&
		!strings.HasPrefix(runtime.Version(), "go1.27") {
		want = "cgocall"
	}
	name, why := HotPath()
	if name != want || why == "" {
		t.Errorf("HotPath() = %q, %q; want %q", name, why, want)
	}
	t.Logf("%s: %s (%s)", runtime.Version(), name, why)
}

func TestChooseHot(t *testing.T) {
	if ok, why := chooseHot("fallback"); ok || !strings.Contains(why, Env) {
		t.Errorf("chooseHot(fallback) = %v, %q", ok, why)
	}
	if ok, why := chooseHot(""); ok != g0Built || why == "" {
		t.Errorf("chooseHot() = %v, %q", ok, why)
	}
}

// TestSelfCheck checks the runtime's fields on many threads, new ones and the
// main one's.
func TestSelfCheck(t *testing.T) {
	if !g0Built {
		t.Skipf("SKIPPED: no trampoline for %s", runtime.Version())
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			if why := selfCheck(); why != "" {
				t.Error(why)
			}
		})
	}
	wg.Wait()
}

func TestThreeWords(t *testing.T) {
	abs, memcmp := libc(t, "labs"), libc(t, "memcmp")
	a, b := libc(t, "abs"), libc(t, "memcmp") // any two addresses of C
	for _, c := range callers {
		if r := c.call(abs, word(-5), 0, 0); int(r) != 5 {
			t.Errorf("%s of labs(-5) = %d", c.name, int(r))
		}
		if r := c.call(memcmp, a, a, 16); int32(r) != 0 {
			t.Errorf("%s of memcmp of equals = %d", c.name, int32(r))
		}
		if r := c.call(memcmp, a, b, 0); int32(r) != 0 {
			t.Errorf("%s of memcmp of nothing = %d", c.name, int32(r))
		}
	}
}

func TestSixWords(t *testing.T) {
	digits, clobber := fn(t, "digits6"), fn(t, "clobber")
	for name, call := range map[string]func(fn, a1, a2, a3, a4, a5, a6 uintptr) uintptr{"Hot6": Hot6, "Slow6": Slow6} {
		if r := call(digits, 1, 2, 3, 4, 5, 6); r != 123456 {
			t.Errorf("%s of 1 to 6 = %d", name, r)
		}
		if r := call(digits, word(-1), 0, 0, 0, 0, 9); int(r) != -99991 {
			t.Errorf("%s of -1, 0, 0, 0, 0, 9 = %d", name, int(r))
		}
		x := [3]int{1, 2, 3}
		for i := range 1000 {
			if r := call(clobber, 0, 0, 0, 0, 0, 0); r != 42 {
				t.Fatalf("%s of clobber = %d", name, r)
			}
			x[i%3] += i
		}
		if x[0]+x[1]+x[2] != 6+999*1000/2 {
			t.Errorf("%s: registers were lost: %v", name, x)
		}
		if n := testing.AllocsPerRun(1000, func() { call(digits, 1, 2, 3, 4, 5, 6) }); n != 0 {
			t.Errorf("%s makes %v allocations", name, n)
		}
	}
}

func TestResultsAndRegisters(t *testing.T) {
	add3, dirty, clobber := fn(t, "add3"), fn(t, "dirty"), fn(t, "clobber")
	for _, c := range callers {
		if r := c.call(add3, word(-7), 2, 1<<40); int(r) != 1<<40-5 {
			t.Errorf("%s of add3 = %d", c.name, int(r))
		}
		if r := c.call(dirty, 3, 0, 0); r != 0xdeadbeef00000003 {
			t.Errorf("%s of dirty = %#x", c.name, r)
		}
		x, y, z := 1.5, []int{1, 2, 3}, [4]uint64{}
		for i := range 1000 {
			if r := c.call(clobber, 0, 0, 0); r != 42 {
				t.Fatalf("%s of clobber = %d", c.name, r)
			}
			// A zeroing of this size takes the register that Go keeps at zero.
			z = [4]uint64{}
			x *= 1.0000001
			y[i%3] += i
		}
		if z != [4]uint64{} || x < 1.5 || x > 1.51 || y[0]+y[1]+y[2] != 6+999*1000/2 {
			t.Errorf("%s: registers were lost: %v %v %v", c.name, z, x, y)
		}
	}
}

// TestStack checks where C runs, and how much room it has there.
func TestStack(t *testing.T) {
	here, deep := fn(t, "stack_here"), fn(t, "deep")
	var local byte
	for _, c := range callers {
		// A goroutine's stack is far from every thread's.
		if sp := c.call(here, 0, 0, 0); distance(sp, &local) < 1<<20 {
			t.Errorf("%s: C runs at %#x, on the goroutine's stack", c.name, sp)
		}
		if r := c.call(deep, 600, 0, 0); r != 600 {
			t.Errorf("%s of deep(600) = %d", c.name, int(r))
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			runtime.LockOSThread()
			for _, c := range callers {
				if r := c.call(deep, 600, 0, 0); r != 600 {
					t.Errorf("%s of deep(600) on a new thread = %d", c.name, int(r))
				}
			}
		})
	}
	wg.Wait()
}

func TestNoAllocation(t *testing.T) {
	f := libc(t, "labs")
	for _, c := range callers {
		if n := testing.AllocsPerRun(1000, func() { c.call(f, 1, 2, 3) }); n != 0 {
			t.Errorf("%s makes %v allocations", c.name, n)
		}
	}
	if n := testing.AllocsPerRun(1000, func() { Hot(f, 1, 2, 3) }); n != 0 {
		t.Errorf("Hot makes %v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() { Slow(f, 1, 2, 3) }); n != 0 {
		t.Errorf("Slow makes %v allocations", n)
	}
}

// TestErrnoInHot: errno set by C in a hot call is seen on the locked thread, so
// both are on one thread's libc.
func TestErrnoInHot(t *testing.T) {
	result := fn(t, "result")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, c := range callers {
		if r := c.call(result, word(-1), uintptr(syscall.ENOSPC), 0); int32(r) != -1 {
			t.Errorf("%s of result = %d", c.name, int32(r))
		}
		if e := *errnoHere(); e != int32(syscall.ENOSPC) {
			t.Errorf("%s: errno is %d afterwards, want %d", c.name, e, syscall.ENOSPC)
		}
	}
}

// again runs this test program once more, with more environment.
func again(t *testing.T, env []string, args ...string) ([]byte, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) ([]byte, error) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c := exec.CommandContext(ctx, name, args...)
		c.Env = append(os.Environ(), env...)
		if runtime.GOARCH == "arm64" && os.Getenv("QEMU_LD_PREFIX") == "" {
			// Under QEMU's user mode its option -L does not come along. Elsewhere nobody
			// reads this.
			c.Env = append(c.Env, "QEMU_LD_PREFIX=/usr/aarch64-linux-gnu")
		}
		quiet := 4*time.Minute + stressTime(t)
		out := &watched{quiet: quiet, timer: time.AfterFunc(quiet, cancel)}
		c.Stdout, c.Stderr = out, out
		err := c.Run()
		out.timer.Stop()
		if ctx.Err() != nil {
			t.Fatalf("%s %v printed nothing for %v:\n%s", name, args, quiet, out.Bytes())
		}
		return out.Bytes(), err
	}
	out, err := run(exe, args...)
	if errors.Is(err, syscall.ENOEXEC) && runtime.GOARCH == "arm64" {
		// QEMU's user mode runs us, but nobody told the kernel.
		out, err = run("qemu-aarch64-static", append([]string{exe}, args...)...)
	}
	return out, err
}

// watched keeps what a program prints, and puts its end off with each piece: an emulated processor may be slow.
type watched struct {
	bytes.Buffer
	quiet time.Duration
	timer *time.Timer
}

func (w *watched) Write(p []byte) (int, error) {
	w.timer.Reset(w.quiet)
	return w.Buffer.Write(p)
}

// TestFallback runs the package's tests again with the fallback forced.
func TestFallback(t *testing.T) {
	if os.Getenv(Env) != "" {
		t.Skip("this is a run with the path forced")
	}
	out, err := again(t, []string{Env + "=fallback", "PUREVERBS_STRESS=" + (stressTime(t) / 2).String()},
		"-test.run=^Test", "-test.skip=^TestFigures$", "-test.v")
	if err != nil {
		t.Fatalf("with %s=fallback: %v\n%s", Env, err, out)
	}
	if !strings.Contains(string(out), "--- PASS: TestHotPath") || strings.Contains(string(out), "g0 (") {
		t.Errorf("with %s=fallback the hot path is not the fallback:\n%s", Env, out)
	}
	_, err = clib()
	if n := strings.Count(string(out), "--- SKIP"); n > 3 && !errors.Is(err, errNoCompiler) {
		t.Errorf("with %s=fallback %d tests were skipped:\n%s", Env, n, out)
	}
}

func BenchmarkCall(b *testing.B) {
	f := libc(b, "labs")
	for _, c := range callers {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.call(f, 1, 2, 3)
			}
		})
	}
	b.Run("Err", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = Err(f, 0, 2, 3)
		}
	})
}
