//go:build linux

package strict

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/emu/internal/await"
	"golang.org/x/sys/unix"
)

func newReport(t *testing.T, w *bytes.Buffer, ignore ...string) *Report {
	t.Helper()
	r, err := New(w, ignore)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReport(t *testing.T) {
	var b bytes.Buffer
	r := newReport(t, &b, "leak")
	me := os.Getpid()
	for i := range 10 {
		r.Violation(me, "wqe-size", fmt.Sprintf("qp 0x45 wqe %d: ds 64 > 63", i))
	}
	r.Violation(me, "leak", "1 QP")
	r.Violation(1<<30, "mr-unmapped", strings.Repeat("x", 2*maxDetail))
	if code := r.Finish(); code != ExitCode {
		t.Errorf("exit code %d, want %d", code, ExitCode)
	}
	comm, _ := os.ReadFile("/proc/self/comm")
	name := string(bytes.TrimSpace(comm))
	es := r.Entries()
	want := []Entry{{"wqe-size", me, name, 10, "qp 0x45 wqe 0: ds 64 > 63"},
		{"mr-unmapped", 1 << 30, "?", 1, strings.Repeat("x", maxDetail) + "…"}}
	if !slices.Equal(es, want) {
		t.Errorf("entries %v, want %v", es, want)
	}
	out := b.String()
	for _, s := range []string{
		fmt.Sprintf("emu: strict: wqe-size: %s (%d): qp 0x45 wqe 0: ds 64 > 63\n    an adapter: completes with", name,
			me),
		"wqe 1: ds 64 > 63\nemu: strict:", "(more of these are only counted)", "emu: strict: 11 violations:",
		"10 × wqe-size", "1 ignored",
	} {
		if !strings.Contains(out, s) {
			t.Errorf("no %q in\n%s", s, out)
		}
	}
	if strings.Contains(out, "wqe 3:") {
		t.Errorf("more than %d details of one rule in\n%s", maxTold, out)
	}
	r.Violation(me, "wqe-size", "late") // must not panic
	if r.total != 12 {
		t.Errorf("total %d, want 12", r.total)
	}
}

// A program names itself, and its name goes to a terminal.
func TestReport_HostileName(t *testing.T) {
	const name = "a\x1b[2J\u009b31m"
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	comm := fmt.Sprintf("/proc/self/task/%d/comm", tid)
	old, err := os.ReadFile(comm)
	if err == nil {
		err = os.WriteFile(comm, []byte(name), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.WriteFile(comm, bytes.TrimSpace(old), 0) // it may be the main thread, whose name is the program's
	var b bytes.Buffer
	r := newReport(t, &b)
	r.Violation(tid, "leak", "1 QP of \x1b]0;")
	r.Finish()
	if out := b.String(); strings.ContainsAny(out, "\x1b\u009b") || strings.Count(out, `"a\x1b[2J\u009b31m" (`) != 2 ||
		strings.Count(out, `"1 QP of \x1b]0;"`) != 2 {
		t.Errorf("the name %q, and a detail, are printed so:\n%q", name, out)
	}
	if got := r.Entries()[0].Program; got != name {
		t.Errorf("the entry's program is %q, want %q", got, name)
	}
}

func TestReport_Clean(t *testing.T) {
	var b bytes.Buffer
	r := newReport(t, &b, "leak")
	r.Violation(1, "leak", "1 QP")
	if code := r.Finish(); code != 0 || b.Len() != 0 {
		t.Errorf("exit code %d, output %q, want neither", code, b.String())
	}
}

func TestReport_UnknownRule(t *testing.T) {
	_, err := New(&bytes.Buffer{}, []string{"leek"})
	var u *UnknownRuleError
	if !errors.As(err, &u) || u.Name != "leek" || !strings.Contains(err.Error(), "event-unacked") {
		t.Errorf("%v, want the list of rules", err)
	}
}

func TestReport_Bounded(t *testing.T) {
	var b bytes.Buffer
	r := newReport(t, &b)
	for pid := range maxEntries + 50 {
		r.Violation(1<<30+pid, "leak", "x")
	}
	r.Finish()
	if len(r.Entries()) != maxEntries || !strings.Contains(b.String(), "50 × others") {
		t.Errorf("%d entries, output ends %q", len(r.Entries()), b.String()[b.Len()-100:])
	}
}

type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) { <-s; return len(p), nil }

// TestReport_NeverWaits shows that a reader that reads nothing stops nobody.
func TestReport_NeverWaits(t *testing.T) {
	s := make(stuck)
	r, err := New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for i := range 5000 {
		r.Violation(i, "leak", "x")
	}
	if d := time.Since(start); d > await.Limit {
		t.Errorf("5000 violations took %v", d)
	}
	close(s)
	r.Finish()
}

func TestRules(t *testing.T) {
	var b bytes.Buffer
	if err := List(&b); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range Rules {
		if r.Silicon == "" || r.Look == "" || seen[r.Name] || !strings.Contains(b.String(), r.Name+"\n") {
			t.Errorf("rule %q is not well described", r.Name)
		}
		seen[r.Name] = true
	}
}
