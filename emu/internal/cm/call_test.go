//go:build linux

package cm

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// answered is a call whose answer comes down a channel.
type answered chan int64

func (c answered) Valid() bool        { return true }
func (c answered) Return(v int64)     { c <- v }
func (c answered) Errno(e unix.Errno) { c <- -int64(e) }

type leaks struct{ n int }

func (l *leaks) Command(_ *hca.Context, name string) (unix.Errno, hca.Reply) {
	if name == "CM_LISTEN" {
		return unix.ENOMEM, hca.Reply{} // as if injected
	}
	return 0, hca.Reply{}
}
func (l *leaks) Violation(int, string, string)             { l.n++ }
func (l *leaks) Event(*hca.Context, hca.EventType, uint64) {}

// TestRealFile drives the server as a trapped program does: by its own memory, through a descriptor that it polls.
func TestRealFile(t *testing.T) {
	s := world(t)
	w := &leaks{}
	s.f.Watch = w
	r, err := s.pipe(os.Getpid(), unix.Gettid(), unix.O_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(r.Fd())
	mem := make([]byte, 4096)
	addr := addressOf(mem)
	resp := addr + 2048
	start := func(num uint32, body []byte, out int) answered {
		h := header{Cmd: num, In: uint16(len(body)), Out: uint16(out)}
		copy(mem, uapi.Bytes(&h))
		copy(mem[8:], body)
		c := make(answered, 1)
		s.write(c, unix.Getpid(), fd, addr, uint64(len(body)+8))
		return c
	}
	do := func(num uint32, body []byte, out int, want int64) {
		t.Helper()
		if got := <-start(num, body, out); got != want {
			t.Fatalf("%s: %d, want %d", commands[num].name, got, want)
		}
	}
	readable := func() bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		return err == nil && n == 1
	}
	do(0, uapi.Bytes(&createID{UID: 1, Response: resp, PS: psTCP}), 4, 32)
	do(12, uapi.Bytes(&getEvent{resp}), 336, -int64(unix.EAGAIN))
	do(3, uapi.Bytes(&resolveIP{Dst: sockaddr("10.0.0.1:7000")}), 0, 72)
	do(7, uapi.Bytes(&idAndNumber{}), 0, -int64(unix.ENOMEM))
	if !readable() {
		t.Error("an event does not make the file readable")
	}
	do(12, uapi.Bytes(&getEvent{resp}), 336, 16)
	if ev := uapi.Decode[eventResp](mem[2048:]); ev.UID != 1 || ev.Event != evAddrResolved {
		t.Errorf("event %+v", ev)
	}
	if readable() {
		t.Error("the file stays readable")
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	wait := func() answered { return start(12, uapi.Bytes(&getEvent{resp}), 336) }
	c := wait()
	for looks := time.After(2 * watchTime); looks != nil; {
		select {
		case v := <-c:
			if v != -int64(restart) { // the Go runtime's signals interrupt this thread, too
				t.Fatalf("GET_EVENT of an empty queue answers %d", v)
			}
			c = wait()
		case <-looks:
			looks = nil
		}
	}
	do(4, uapi.Bytes(&idAndNumber{}), 0, 16)
	v := <-c
	if v == -int64(restart) {
		v = <-wait()
	}
	if v != 16 || uapi.Decode[eventResp](mem[2048:]).Event != evRouteResolved {
		t.Errorf("the waiting GET_EVENT answers %d", v)
	}
	if readable() {
		t.Error("an event that was handed over makes the file readable")
	}
	if s.Owns("pipe:[1]") || !s.Owns((&thread{Mem: guest.Mem{PID: os.Getpid()}}).file(fd)) {
		t.Error("Owns does not know the file from others")
	}
	other := make(answered, 1)
	s.write(other, unix.Getpid(), 0, addr, 8)
	if v := <-other; v != -int64(unix.EBADF) {
		t.Errorf("a descriptor of another kind: %d", v)
	}
	r.Close()
	soon(t, s, "the release", func() bool { return len(s.files) == 0 })
	idle(t, s)
	if w.n != 1 {
		t.Errorf("%d reports of an id that was not destroyed, want 1", w.n)
	}
	runtime.KeepAlive(mem)
}

// TestSignaled looks at threads with and without a pending signal.
func TestSignaled(t *testing.T) {
	runtime.LockOSThread() // for good: the thread ends with the test, and the signal with it
	var old, set unix.Sigset_t
	set.Val[0] = 1 << (unix.SIGUSR2 - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old); err != nil {
		t.Fatal(err)
	}
	th := &thread{}
	th.PID = unix.Gettid()
	if err := unix.Tgkill(os.Getpid(), th.PID, unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	if th.signaled() {
		t.Error("a blocked signal counts")
	}
	// A program that is stopped cannot take its signal.
	pid, err := sleeper(t)
	if err != nil {
		t.Fatal(err)
	}
	child := &thread{}
	child.PID = pid
	if child.signaled() {
		t.Error("a process without signals counts")
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped(t, pid)
	if err := unix.Kill(pid, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if !child.signaled() {
		t.Error("a signal is not seen")
	}
}

// sleeper starts a program that sleeps.
func sleeper(t *testing.T) (int, error) {
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "60"}, &os.ProcAttr{})
	if err != nil {
		return 0, err
	}
	t.Cleanup(func() { _ = p.Kill(); _, _ = p.Wait() })
	return p.Pid, nil
}

func stopped(t *testing.T, pid int) {
	t.Helper()
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("not stopped: %v, %v", ws, err)
	}
}
