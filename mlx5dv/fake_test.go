package mlx5dv

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/testutil/fakeverbs"
	"github.com/pureverbs/pureverbs/loader"
)

// childEnv names the test that runs in a child process.
const childEnv = "PUREVERBS_MLX5DV_CHILD"

// onFake runs body in a process with the fake libibverbs and libmlx5.
func onFake(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	if os.Getenv(childEnv) == t.Name() {
		body(t)
		return
	}
	dir := t.TempDir()
	if _, err := fakeverbs.Build(dir, "../ibv/testdata/fakeverbs"); err != nil {
		if errors.Is(err, fakeverbs.ErrNoCompiler) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	if err := fakeverbs.BuildMLX5(dir, "testdata/fakemlx5"); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1", "-test.timeout=60s")
	c.Env = append(append(os.Environ(), fakeverbs.Env(dir)...), childEnv+"="+t.Name())
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// fakeCall calls a function of the fake libmlx5.
func fakeCall(t *testing.T, name string, args ...uintptr) int {
	t.Helper()
	lib, err := loader.Open(loader.MLX5)
	if err != nil {
		t.Fatal(err)
	}
	fn, err := lib.Symbol(name)
	if err != nil {
		t.Fatal(err)
	}
	return int(ccall.Uint64(fn, args...))
}

func lastArg(t *testing.T, i int) int { return fakeCall(t, "fake_arg", uintptr(i)) }

// closeMeanwhile closes objects while f is in C with them: who is in an object must not enter it again, and wait for
// the Close that waits for it.
func closeMeanwhile[T interface{ Close() error }](t *testing.T, create func() T, f func(T) error) {
	t.Helper()
	for range 6 { // not each is in C with the object when it is closed
		obj, done := create(), make(chan struct{})
		fakeCall(t, "fake_slow", 1000)
		go func() {
			defer close(done)
			for !errors.Is(f(obj), ibv.ErrClosed) {
			}
		}()
		for fakeCall(t, "fake_inside") == 0 {
			runtime.Gosched()
		}
		ok(t, obj.Close())
		<-done
		fakeCall(t, "fake_slow", 0)
	}
}

// withFake runs body with a device of the fake libraries, and looks at what it leaves.
func withFake(t *testing.T, name string, body func(t *testing.T, dev *ibv.Device)) {
	t.Run(name, func(t *testing.T) {
		fakeCall(t, "fake_reset")
		dev := must(ibv.Open(""))(t)
		t.Cleanup(func() {
			ok(t, dev.Close())
			if n := fakeCall(t, "fake_live"); n != 0 {
				t.Errorf("%d objects were not destroyed", n)
			}
		})
		body(t, dev)
	})
}
