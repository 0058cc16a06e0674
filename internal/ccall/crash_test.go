//go:build linux && (amd64 || arm64) && !pureverbs_native

package ccall

import (
	"os"
	"strings"
	"testing"
)

// TestCrash: a fault in C ends the process with a report. It must not hang, and it
// must not be taken for a nil pointer of Go that somebody could recover.
func TestCrash(t *testing.T) {
	const env = "PUREVERBS_CCALL_CRASH"
	if way := os.Getenv(env); way != "" {
		defer func() {
			recover()
			os.Exit(0)
		}()
		for _, c := range callers {
			if c.name == way {
				c.call(libc(t, "strlen"), 8, 0, 0)
			}
		}
		os.Exit(0)
	}
	for _, c := range callers {
		out, err := again(t, []string{env + "=" + c.name}, "-test.run=^TestCrash$")
		if err == nil {
			t.Errorf("%s of a function that faults: the process lives\n%s", c.name, out)
		}
		if !strings.Contains(string(out), "SIGSEGV") && !strings.Contains(string(out), "fatal error") {
			t.Errorf("%s of a function that faults left no report: %v\n%s", c.name, err, out)
		}
		first, _, _ := strings.Cut(string(out), "\n")
		t.Logf("%s: %s", c.name, first)
	}
}
