package ibv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
	"github.com/pureverbs/pureverbs/internal/testutil/fakeverbs"
	"github.com/pureverbs/pureverbs/loader"
)

// childEnv marks a test binary that another one started, and names the test.
const childEnv = "PUREVERBS_TEST_CHILD"

// execEnv is the program that runs test binaries of another architecture, as
// with go test -exec.
const execEnv = "PUREVERBS_TEST_EXEC"

// fakeErr is why there is no fake library in this process, nil if there is.
var fakeErr error

// TestMain puts the fake library in the place of libibverbs, unless this is the
// VM with its real devices, and fails when a test leaves an object open.
func TestMain(m *testing.M) { emulated.Run(func() int { return runTests(m) }) }

func runTests(m *testing.M) int {
	leak.Enable()
	switch {
	case os.Getenv(testutil.TierEnv) != "":
		fakeErr = errors.New("this machine has real devices")
	case os.Getenv(childEnv) != "":
		// The parent chose the library.
	default:
		dir, err := os.MkdirTemp("", "fakeverbs")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if _, fakeErr = fakeverbs.Build(dir, "testdata/fakeverbs"); fakeErr == nil {
			fakeErr = fakeverbs.Use(dir)
		}
		if fakeErr != nil && !errors.Is(fakeErr, fakeverbs.ErrNoCompiler) {
			fmt.Fprintln(os.Stderr, fakeErr)
			return 1
		}
	}
	code := m.Run()
	if open := leak.Open(); code == 0 && len(open) > 0 {
		fmt.Fprintf(os.Stderr, "%d objects were not closed:\n%s\n", len(open), strings.Join(open, "\n"))
		return 1
	}
	return code
}

// needFake skips where the fake library is missing. It returns the library, whose own functions have names in "fv_".
func needFake(t testing.TB) bind.Library {
	t.Helper()
	if fakeErr != nil {
		t.Skip(fakeErr)
	}
	lib, err := bind.Open(loader.IBVerbs)
	if err != nil {
		t.Fatal(err)
	}
	if !lib.Has("fv_set") {
		t.Fatal("the library that was loaded is not the fake one")
	}
	return lib
}

// set turns a knob of the fake library until the end of the test.
func set(t testing.TB, name string, value int) {
	t.Helper()
	lib := needFake(t)
	knob(t, lib, "fv_set", name, value)
	t.Cleanup(func() { knob(t, lib, "fv_unset", name, 0) })
}

// unset turns a knob back before the end of the test.
func unset(t testing.TB, name string) {
	t.Helper()
	knob(t, needFake(t), "fv_unset", name, 0)
}

// get reads a knob, -1 if it was never set.
func get(t testing.TB, name string) int {
	t.Helper()
	return knob(t, needFake(t), "fv_get", name, 0)
}

func knob(t testing.TB, lib bind.Library, fn, name string, value int) int {
	t.Helper()
	b := append([]byte(name), 0)
	var pin runtime.Pinner
	pin.Pin(&b[0])
	defer pin.Unpin()
	addr, err := lib.Symbol(fn)
	if err != nil {
		t.Fatal(err)
	}
	return int(int32(ccall.Uint64(addr, cmem.SliceAddr(b), uintptr(value))))
}

// live is the number of objects in the fake library.
func live(t testing.TB) int {
	t.Helper()
	n, err := needFake(t).Minus1Int("fv_live")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// leavesNothing fails the test if it leaves objects in the library.
func leavesNothing(t testing.TB) {
	t.Helper()
	before := live(t)
	t.Cleanup(func() {
		if after := live(t); after != before {
			t.Errorf("%d objects in the library, %d before the test", after, before)
		}
	})
}

// inChild runs body in a process of its own, with a library of its own: one
// process loads one library only. lib is the folder that holds it, env more of
// the environment.
func inChild(t *testing.T, lib string, env []string, body func(t *testing.T)) {
	t.Helper()
	if os.Getenv(childEnv) == t.Name() {
		body(t)
		return
	}
	out, err := runChild(t, lib, env)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "--- PASS: "+t.Name()) {
		t.Fatalf("the child ran no test\n%s", out)
	}
	if testing.Verbose() {
		t.Logf("child:\n%s", out)
	}
}

// runChild runs this test in a process of its own and returns its output.
func runChild(t *testing.T, lib string, env []string) (string, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var pattern []string
	for _, part := range strings.Split(t.Name(), "/") {
		pattern = append(pattern, "^"+part+"$")
	}
	args := append(strings.Fields(os.Getenv(execEnv)), exe, "-test.run="+strings.Join(pattern, "/"), "-test.v",
		"-test.count=1", "-test.timeout="+testutil.Patience.String())
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(os.Environ(), childEnv+"="+t.Name(), loader.PathEnv+"="+lib)
	c.Env = append(c.Env, env...)
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	return string(out), err
}

// variant builds another fake library for inChild.
func variant(t *testing.T, macros ...string) string {
	t.Helper()
	if os.Getenv(childEnv) != "" {
		return ""
	}
	dir := t.TempDir()
	if _, err := fakeverbs.Build(dir, "testdata/fakeverbs", macros...); err != nil {
		if errors.Is(err, fakeverbs.ErrNoCompiler) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	return filepath.Clean(dir)
}
