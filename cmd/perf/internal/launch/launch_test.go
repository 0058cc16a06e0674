//go:build unix

package launch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

func start(t *testing.T, command string, words ...string) *Launch {
	t.Helper()
	l, err := Start(command, words, []string{"RDMAPERF_JOIN=a:1"}, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Stop(context.Background(), 0) })
	return l
}

// TestWords: the words come behind the command, or where it wants them, each as one, with the environment.
func TestWords(t *testing.T) {
	for command, want := range map[string][]string{
		`printf '<%s>\n'`:                                            {"<a b>", "<$c>"},
		`printf '<%s>\n' 1 "$@" 2`:                                   {"<1>", "<a b>", "<$c>", "<2>"},
		`echo err >&2; echo out; echo $RDMAPERF_JOIN; : `:            {"err", "out", "a:1"},
		`for i in 1 2; do echo $i "$@" & wait; done`:                 {"1 a b $c", "2 a b $c"},
		`i=0; while [ $i -lt 100 ]; do echo $i; i=$((i+1)); done; :`: nil,
	} {
		l := start(t, command, "a b", "$c")
		if err := <-l.Ended; err != nil {
			t.Errorf("%s: %v", command, err)
		}
		got := l.Said()
		last := want == nil && len(got) == mostLines && got[mostLines-1] == "99"
		if !last && (want == nil || !slices.Equal(got, want)) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
		if err := l.Stop(t.Context(), time.Hour); err != nil {
			t.Errorf("%s: Stop: %v", command, err)
		}
	}
	l := start(t, "echo broken; exit 7; :")
	if err := <-l.Ended; err == nil || err.Error() != "exit status 7" {
		t.Errorf("a launcher that fails: %v", err)
	}
}

// TestStop: a launcher that does not end is ended, with what it started, also if it does not want to.
func TestStop(t *testing.T) {
	for name, command := range map[string]string{"waits": `sleep 600 & echo $! >"$1"; wait; : "$@"`,
		"ignores": `trap '' TERM; sleep 600 & echo $! >"$1"; sleep 600; : "$@"`} {
		file := filepath.Join(t.TempDir(), "pid")
		l := start(t, command, file)
		var pid int
		testutil.Eventually(t, "the launcher works", func() bool {
			b, _ := os.ReadFile(file)
			for _, d := range strings.TrimSpace(string(b)) {
				pid = pid*10 + int(d-'0')
			}
			return pid > 0
		})
		if err := l.Stop(t.Context(), 50*time.Millisecond); err == nil {
			t.Errorf("%s: no error", name)
		}
		testutil.Eventually(t, name+": what it started ends", func() bool { return gone(pid) })
	}
}

// gone reports whether a process has ended; nobody may have waited for it.
func gone(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil && syscall.Kill(pid, 0) != nil || strings.Contains(string(b), ") Z ")
}

// TestBackground: agents in the background outlive a launcher that has done its work, and can still write.
func TestBackground(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	l := start(t, `(while [ ! -e "$1" ]; do sleep 0.02; done; echo late) & echo "$@" >/dev/null`, file)
	if err := <-l.Ended; err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, "the agent writes", func() bool { return slices.Contains(l.Said(), "late") })
}
