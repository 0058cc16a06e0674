//go:build linux

package guest

import (
	"bufio"
	"io"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// thread runs a thread until the end of the test, and returns its number.
func thread(t *testing.T) int {
	t.Helper()
	tid, end := make(chan int), make(chan bool)
	go func() {
		runtime.LockOSThread()
		tid <- unix.Gettid()
		<-end
	}()
	t.Cleanup(func() { close(end) })
	return <-tid
}

// TestCredentials has threads that share credentials until one of them changes its own, and one that begins later.
func TestCredentials(t *testing.T) {
	var c Credentials
	a, b, d := thread(t), thread(t), thread(t)
	first := c.Of(a)
	has := func(what string, tid int, o *Cred, want bool) {
		t.Helper()
		for range 2 { // the second time from memory
			if got := c.Has(tid, o); got != want {
				t.Errorf("%s: %t", what, got)
			}
		}
	}
	has("another thread", b, first, true)
	c.Change(b)
	has("another thread that changed", b, first, false)
	has("the thread itself, after another changed", a, first, true)
	has("a third thread", d, first, true)
	second := c.Of(b)
	has("the thread that changed", b, second, true)
	has("others", a, second, false)
	c.Change(b)
	has("a thread that changed again", b, second, false)
	late := thread(t)
	for c.procs[unix.Getpid()].first[late] { // the runtime had one to spare
		late = thread(t)
	}
	has("a late thread", late, first, false)
	has("a late thread", late, c.Of(b), false)
	own := c.Of(late)
	has("a late thread, its own", late, own, true)
	has("others, a late thread's", a, own, false)
}

// TestCredentials_Program changes the credentials of a process that becomes another program: its threads share theirs
// again, and those are not the former ones.
func TestCredentials_Program(t *testing.T) {
	cmd := exec.Command("sh", "-c", "echo; read x; exec sh -c 'echo; read x'")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line := func() {
		t.Helper()
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	line()
	var c Credentials
	pid := cmd.Process.Pid
	if c.Has(pid, c.Of(unix.Gettid())) {
		t.Error("a process has its parent's credentials")
	}
	first := c.Of(pid)
	c.Change(pid)
	second := c.Of(pid)
	if c.Has(pid, first) || !c.Has(pid, second) {
		t.Error("the change was not noticed")
	}
	_, _ = io.WriteString(in, "\n")
	line()
	third := c.Of(pid)
	if third.who.change != 0 || third.who.thread != 0 || len(c.procs) != 0 {
		t.Errorf("the program's credentials are %+v, of %d changed processes", third.who, len(c.procs))
	}
	c.Change(pid)
	c.Exits(pid)
	if len(c.procs) != 0 {
		t.Error("a process that has ended is known")
	}
	_ = in.Close()
	_ = cmd.Wait()
}
