package testutil

import (
	"os"
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil/native"
)

// NeedControl skips a test that the control path in use cannot pass, as package native lists. NeedRXE calls it. A
// subtest with a row of its own calls it, too.
func NeedControl(t testing.TB) {
	t.Helper()
	if os.Getenv(native.Env) != "native" || os.Getenv(native.RowsEnv) != "" {
		return
	}
	dir, test := caller()
	names := []string{t.Name()}
	if t.Name() != test && !strings.HasPrefix(t.Name(), test+"/") { // another test has called it
		names = []string{test, test + "/" + path.Base(t.Name())}
	}
	for _, name := range names {
		if r := native.Of(dir, name); r != nil {
			t.Skip(native.Skipped + r.Text)
		}
	}
}

// caller returns the test function that runs, and the folder of its package. A test may be part of another one, under a
// name that does not tell.
func caller() (dir, test string) {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		folder, function := path.Split(f.Function) // MODULE/rdma/ and internal.TestX.func1
		folder, ours := strings.CutPrefix(folder, "github.com/pureverbs/pureverbs/")
		if part := strings.Split(function, "."); ours && len(part) > 1 && strings.HasPrefix(part[1], "Test") {
			return folder + part[0], part[1]
		}
		if !more {
			return "", ""
		}
	}
}
