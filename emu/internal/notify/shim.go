//go:build linux

package notify

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// The processes between supervisor and program are told by their argv[0]. What follows: the spec, the descriptors to
// the supervisor, the program's path and its argv.
const (
	roleInit = "emu:init"
	roleShim = "emu:shim"
)

// Shim is to be called first in main. In a process that [Start] made it never returns; in any other it does nothing.
func Shim() {
	switch {
	case len(os.Args) == 4 && os.Args[0] == roleNet:
		runtime.LockOSThread()
		runNet()
		os.Exit(126)
	case len(os.Args) < 6:
	case os.Args[0] == roleInit:
		runtime.LockOSThread() // PDEATHSIG is the death of the thread that forked
		os.Exit(runInit())
	case os.Args[0] == roleShim:
		runtime.LockOSThread()
		runShim()
		os.Exit(126)
	}
}

// report tells the supervisor what failed.
func report(up int, step string, err error) {
	e, _ := err.(syscall.Errno)
	_ = unix.Sendto(up, fmt.Appendf(nil, "E %s %d", step, int(e)), unix.MSG_NOSIGNAL, nil)
}

// runShim installs the filter, hands the listener over, and becomes the program.
func runShim() {
	up, _ := strconv.Atoi(os.Args[3])
	unix.CloseOnExec(up)
	var s spec
	if err := json.Unmarshal([]byte(os.Args[1]), &s); err != nil {
		report(up, "spec", err)
		return
	}
	// The program's death signal belongs to the thread that execs.
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		report(up, "no_new_privs", err)
		return
	}
	listener, e := install(filter(&s))
	if e != 0 {
		report(up, "seccomp", e)
		return
	}
	hello := fmt.Appendf(nil, "L %d %d", os.Getpid(), canaryAddr())
	if err := unix.Sendmsg(up, hello, unix.UnixRights(listener), nil, unix.MSG_NOSIGNAL); err != nil {
		return
	}
	unix.Close(listener)
	var ack [8]byte
	if n, err := recv(up, ack[:]); err != nil || n == 0 {
		return
	}
	report(up, "exec", syscall.Exec(os.Args[4], os.Args[5:], os.Environ()))
}

// recv waits for a message; 0 is the end.
func recv(fd int, buf []byte) (n int, err error) {
	for err = unix.EINTR; err == unix.EINTR; {
		n, err = unix.Read(fd, buf)
	}
	return n, err
}

// take waits for a message with descriptors.
func take(fd int, buf []byte, most int) (n int, fds []int, err error) {
	oob := make([]byte, unix.CmsgSpace(4*most))
	var on int
	for err = unix.EINTR; err == unix.EINTR; {
		n, on, _, _, err = unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil || on == 0 {
		return n, nil, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:on])
	if err == nil && len(msgs) == 1 {
		fds, err = unix.ParseUnixRights(&msgs[0])
	}
	return n, fds, err
}

// ended waits for the end of a child.
func ended(pid int) (st unix.WaitStatus) {
	for {
		if _, err := unix.Wait4(pid, &st, 0, nil); err != unix.EINTR {
			return st
		}
	}
}

// runInit starts the shim, adopts what the program leaves behind, and ends when all of it has.
func runInit() int {
	ctl, _ := strconv.Atoi(os.Args[2])
	up, _ := strconv.Atoi(os.Args[3])
	unix.CloseOnExec(ctl)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	// Signals to the whole group are the program's to answer. They become the default again in it.
	catch(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGALRM)
	args := append([]string{roleShim}, os.Args[1:]...)
	pid, err := syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
	})
	if err != nil {
		report(up, "fork", err)
		return 126
	}
	unix.Close(up)
	// Whoever reads the program's output waits for the program's end, not for ours.
	if null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup3(null, fd, 0)
		}
	}
	r := &reaper{main: pid, code: -1}
	go r.obey(ctl)
	r.reap()
	var s spec
	if r.alone(ctl) && json.Unmarshal([]byte(os.Args[1]), &s) == nil && s.Scratch != "" {
		_ = os.RemoveAll(s.Scratch)
	}
	return r.code
}

// reaper waits for the program and its descendants.
type reaper struct {
	mu   sync.Mutex
	main int // 0 once it has ended: its number may be another's by then
	code int

	orphan atomic.Bool // there is no supervisor any more
}

// alone reports whether there is no supervisor any more. Its files are closed one after another when it is killed, and
// a program whose calls nobody answers may have ended, with an error, before the file ctl is.
func (r *reaper) alone(ctl int) bool {
	patience := 0
	if r.code != 0 {
		patience = 50 // ms
	}
	fds := []unix.PollFd{{Fd: int32(ctl), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(fds, patience)
	for err == unix.EINTR {
		n, err = unix.Poll(fds, patience)
	}
	return r.orphan.Load() || err == nil && n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLRDHUP) != 0
}

// obey sends on the signals that the supervisor names, one byte each, and SIGKILL when there is no supervisor any more.
func (r *reaper) obey(ctl int) {
	for {
		var b [1]byte
		n, err := recv(ctl, b[:])
		if n == 0 || err != nil {
			b[0] = byte(unix.SIGKILL)
			r.orphan.Store(true)
		}
		r.mu.Lock()
		if r.main != 0 {
			_ = unix.Kill(r.main, unix.Signal(b[0]))
		}
		r.mu.Unlock()
		if n == 0 || err != nil {
			return
		}
	}
}

// reap returns when there is no descendant left.
func (r *reaper) reap() {
	for {
		// Looking first and reaping under the lock: obey must not signal a number that is free.
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			if err == unix.EINTR {
				continue
			}
			return
		}
		r.mu.Lock()
		var st unix.WaitStatus
		pid, err := unix.Wait4(-1, &st, unix.WNOHANG, nil)
		ended := err == nil && pid == r.main && pid != 0
		if ended {
			r.main = 0
			if r.code = st.ExitStatus(); st.Signaled() {
				r.code = 128 + int(st.Signal())
			}
		}
		r.mu.Unlock()
		if ended {
			go terminate(os.Getpid())
		}
	}
}
