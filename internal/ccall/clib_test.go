//go:build linux && !pureverbs_native

package ccall

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ebitengine/purego"
)

// clib is testdata/ccalltest.c, compiled and loaded once.
var clib = sync.OnceValues(func() (uintptr, error) {
	cc := os.Getenv("CC")
	if cc == "" {
		for _, c := range []string{"cc", "gcc", "clang"} {
			if p, err := exec.LookPath(c); err == nil {
				cc = p
				break
			}
		}
	}
	if cc == "" {
		return 0, errNoCompiler
	}
	dir, err := os.MkdirTemp("", "ccalltest")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	so := filepath.Join(dir, "ccalltest.so")
	args := append(strings.Fields(cc), "-O2", "-Wall", "-Wno-infinite-recursion", "-shared", "-fPIC", "-o", so,
		"testdata/ccalltest.c")
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return 0, errors.New(strings.Join(args, " ") + ": " + err.Error() + "\n" + string(out))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlopen(so, purego.RTLD_NOW)
})

var errNoCompiler = errors.New("no C compiler: make setup installs gcc; or set CC")

// fn returns a function of the C test library, or skips where there is no C
// compiler.
func fn(tb testing.TB, name string) uintptr {
	tb.Helper()
	lib, err := clib()
	if errors.Is(err, errNoCompiler) {
		tb.Skipf("SKIPPED, needs the C test library: %v", err)
	}
	if err != nil {
		tb.Fatalf("the C test library for %s (CC says which compiler): %v", runtime.GOARCH, err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	addr, err := purego.Dlsym(lib, name)
	if err != nil {
		tb.Fatal(err)
	}
	return addr
}

// libc returns a function of the C library.
func libc(tb testing.TB, name string) uintptr {
	tb.Helper()
	addr, err := Libc(name)
	if err != nil {
		tb.Fatal(err)
	}
	return addr
}

// word is a signed argument of a C function.
func word(n int) uintptr { return uintptr(n) }
