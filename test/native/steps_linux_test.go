//go:build linux && amd64 && !race

package native

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/emutest"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// What a process of role fresh is to do.
const (
	killEnv  = "PUREVERBS_TEST_NATIVE_KILL"  // kill itself at that step
	filesEnv = "PUREVERBS_TEST_NATIVE_FILES" // open no more than so many files
	goodEnv  = "PUREVERBS_TEST_NATIVE_GOOD"  // they are enough
)

// alone runs a process of role fresh for each line of the standard input, which has its environment. When it has ended,
// nothing is left of it.
func alone() {
	emu, err := emutest.Connect()
	if err != nil {
		wrong("%v", err)
		return
	}
	self, _ := os.Executable()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		c := exec.Command(self)
		c.Env = append(append(os.Environ(), roleEnv+"=fresh"), strings.Fields(in.Text())...)
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if bad := killed != strings.HasPrefix(in.Text(), killEnv) || err != nil && !killed; bad || bytes.Contains(out,
			[]byte("wrong: ")) {
			wrong("%s: %v\n%s", in.Text(), err, out)
		}
		fmt.Println("run:", in.Text(), strings.TrimSpace(string(out)))
		var s emutest.Stats
		if !await(func() bool { s, err = emu.Stats(); return err == nil && s.Contexts == 0 && s.Objects == 0 }) {
			wrong("%s: %d contexts and %d objects are left: %v", in.Text(), s.Contexts, s.Objects, err)
		}
	}
}

// fresh runs the program in a process that has not run it before.
func fresh() {
	if n, err := strconv.Atoi(os.Getenv(filesEnv)); err == nil {
		if err := limit(n); err != nil {
			wrong("%v", err)
		}
	}
	kill, _ := strconv.Atoi(os.Getenv(killEnv))
	n := 0
	emu, err := emutest.Connect()
	if err != nil {
		wrong("%v", err)
		return
	}
	s := &site{Emulator: emu}
	few := os.Getenv(filesEnv) != "" && os.Getenv(goodEnv) == ""
	w := &work{wait: brief, well: func() bool { return !few && s.well() }, step: func(string) {
		if n++; n == kill {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}}
	w.all()
	w.check("fresh")
	fmt.Printf("steps: %d, errors: %d\n", n, len(w.errs))
}

// limit lets the process open n more files.
func limit(n int) error {
	a, b, err := os.Pipe() // Go's netpoller needs descriptors of its own, and ends a program that has none for it
	if err != nil {
		return err
	}
	_, _ = a.Close(), b.Close()
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return err
	}
	r.Cur = 0
	for free := 0; ; r.Cur++ {
		if _, err := unix.FcntlInt(uintptr(r.Cur), unix.F_GETFD, 0); err != nil {
			if free++; free > n {
				return unix.Setrlimit(unix.RLIMIT_NOFILE, &r)
			}
		}
	}
}

// steps returns how many steps the program has.
func steps(t *testing.T) int {
	t.Helper()
	out := emulator{role: "fresh", control: ibv.ControlNative}.run(t)
	var n int
	if _, err := fmt.Sscanf(out, "steps: %d, errors: 0", &n); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return n
}

// every returns how many of a test's rows a short run leaves out for each one that it has.
func every(n int) int {
	if testutil.Full() {
		return 1
	}
	return n
}

// TestEmuNative_Killed kills the process at each step.
func TestEmuNative_Killed(t *testing.T) {
	var list []string
	for n, last := 1, steps(t); n <= last; n += every(7) {
		list = append(list, fmt.Sprintf("%s=%d", killEnv, n))
	}
	report(t, emulator{role: "alone", control: ibv.ControlNative, input: strings.Join(list, "\n")}.run(t), len(list))
}

// TestEmuNative_Removed removes the device at each command of a new process.
func TestEmuNative_Removed(t *testing.T) {
	commands, _ := known(t)
	n := sent(t, emulator{role: "once"})
	for c, name := range commands {
		for i := range n[name] {
			if i%every(5) == c%every(5) {
				spec := fmt.Sprintf("device-removal:cmd=%s,after=%d", name, i)
				t.Run(spec, func(t *testing.T) { alike(t, "--fault", spec) })
			}
		}
	}
}

// TestEmuNative_Descriptors runs the program with no descriptors, with one, and so on until there are enough.
func TestEmuNative_Descriptors(t *testing.T) {
	const most = 64
	var list []string
	for n := 0; n < most; n += every(3) {
		list = append(list, fmt.Sprintf("%s=%d", filesEnv, n))
	}
	list[len(list)-1] += " " + goodEnv + "=1"
	out := emulator{role: "alone", control: ibv.ControlNative, input: strings.Join(list, "\n")}.run(t)
	report(t, out, len(list))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if first, last := lines[0], lines[len(lines)-1]; strings.HasSuffix(first, "errors: 0") ||
		!strings.HasSuffix(last, "errors: 0") {
		t.Errorf("with no descriptors: %s; with %d: %s", first, most, last)
	}
}

// TestEmuNative_Memlock runs the program with less memory than it registers.
func TestEmuNative_Memlock(t *testing.T) {
	for _, bytes := range []string{"1", "4096", "65536"} {
		if strings.Contains(alike(t, "--memlock", bytes), "errors: 0") {
			t.Errorf("with %s bytes nothing failed", bytes)
		}
	}
}
