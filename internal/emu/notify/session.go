//go:build linux && (amd64 || arm64)

package notify

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Config is the program to run and what to trap.
type Config struct {
	Argv    []string // argv[0] is looked up in PATH
	Env     []string
	Filter  Filter
	Handle  func(*Call)               // answers a call; several at once, each in a goroutine of its own worker
	Workers int                       // 0 means 2
	OnPanic func(v any, stack []byte) // a handler that panicked: its call was answered with EIO
}

// Session is a running program with its descendants.
type Session struct {
	filter   Filter
	handle   func(*Call)
	onPanic  func(any, []byte)
	listener int
	pid      int
	done     chan struct{}
	code     int
}

// shimEnv marks the process that installs the filter and becomes the program.
const shimEnv = "EMU_SHIM"

// Start runs the program. The calling program must call Shim first thing in main.
func Start(cfg Config) (*Session, error) {
	if len(cfg.Argv) == 0 {
		return nil, errors.New("no program to run")
	}
	file, err := exec.LookPath(cfg.Argv[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[0])
	ours := os.NewFile(uintptr(pair[1]), "shim")
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	s := &Session{filter: cfg.Filter, handle: cfg.Handle, onPanic: cfg.OnPanic, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The program is to die with us, and the kernel means this thread.
		runtime.LockOSThread()
		p, err := os.StartProcess(self, append([]string{shimName, file, strconv.Itoa(int(cfg.Filter.Window[1]))}, cfg.Argv...), &os.ProcAttr{
			Env:   append(cfg.Env, shimEnv+"="+cfg.Filter.encode()),
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, ours},
			Sys:   &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
		})
		if err == nil {
			s.pid = p.Pid
			_ = p.Release()
		}
		started <- err
		if err == nil {
			<-s.done
		}
	}()
	err = <-started
	ours.Close()
	if err != nil {
		return nil, err
	}
	if s.listener, err = receive(pair[0]); err != nil {
		_, _ = unix.Wait4(s.pid, nil, 0, nil)
		return nil, err
	}
	flags := uint64(syncWakeUp)
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(s.listener), ioctlSetFlags, uintptr(flags)) // since 6.6, and only faster
	workers := cfg.Workers
	if workers == 0 {
		workers = 2
	}
	for range workers {
		go s.work()
	}
	go s.reap()
	return s, nil
}

// receive takes the listener from the shim, or the reason why there is none.
func receive(sock int) (int, error) {
	msg, oob := make([]byte, 512), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(sock, msg, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("recvmsg", err)
	}
	if oobn == 0 {
		if n == 0 {
			return -1, errors.New("the program could not be started")
		}
		return -1, &ProbeError{Missing: string(msg[:n])}
	}
	m, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(m) != 1 {
		return -1, fmt.Errorf("the shim sent no listener: %v", err)
	}
	fds, err := unix.ParseUnixRights(&m[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("the shim sent no listener: %v", err)
	}
	return fds[0], nil
}

// PID is the program's.
func (s *Session) PID() int { return s.pid }

func (s *Session) work() {
	for {
		var n notif
		_, e := s.ioctl(ioctlRecv, unsafe.Pointer(&n))
		switch e {
		case 0:
			s.serve(&n)
		case unix.EINTR, unix.ENOENT: // ENOENT: the caller was killed before we got to it, or the last one has ended
			select {
			case <-s.done:
				return
			default:
				if e == unix.ENOENT {
					time.Sleep(time.Millisecond)
				}
			}
		default:
			return
		}
	}
}

func (s *Session) serve(n *notif) {
	c := decode(n)
	c.s = s
	defer func() {
		if v := recover(); v != nil {
			c.Errno(unix.EIO)
			if s.onPanic != nil {
				s.onPanic(v, debug.Stack())
			}
		}
	}()
	s.handle(&c)
}

// reap waits for all descendants, and ends those that outlive the program.
func (s *Session) reap() {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			break // ECHILD: nobody is left
		}
		if pid == s.pid {
			if s.code = ws.ExitStatus(); ws.Signaled() {
				s.code = 128 + int(ws.Signal())
			}
			go endOthers()
		}
	}
	close(s.done)
}

// grace is what descendants get to end by themselves.
const grace = 300 * time.Millisecond

func endOthers() {
	for _, p := range descendants() {
		_ = unix.Kill(p, unix.SIGTERM)
	}
	time.Sleep(grace)
	for left := descendants(); len(left) > 0; left = descendants() {
		for _, p := range left {
			_ = unix.Kill(p, unix.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// descendants are the processes below this one that have not ended.
func descendants() []int {
	dir, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	kids := map[int][]int{}
	for _, d := range dir {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		if err != nil {
			continue
		}
		// "pid (name) state ppid": the name may hold anything.
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(f) < 2 || f[0] == "Z" {
			continue
		}
		ppid, _ := strconv.Atoi(f[1])
		kids[ppid] = append(kids[ppid], pid)
	}
	var all []int
	for todo := []int{os.Getpid()}; len(todo) > 0; todo = todo[1:] {
		all = append(all, kids[todo[0]]...)
		todo = append(todo, kids[todo[0]]...)
	}
	return all
}

// Wait waits for the end of the program and of all its descendants, and answers the program's exit code: 128 and the signal if one ended it.
func (s *Session) Wait() int {
	<-s.done
	return s.code
}

// Done is closed when the program and its descendants have ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Forward passes signals that would end this process on to the program, until it has ended. A terminal sends its own signals to both.
func (s *Session) Forward() {
	c := make(chan os.Signal, 8)
	signal.Notify(c, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	_, err := unix.IoctlGetTermios(0, unix.TCGETS)
	terminal := err == nil
	go func() {
		for {
			select {
			case sig := <-c:
				if terminal && (sig == unix.SIGINT || sig == unix.SIGQUIT) {
					continue
				}
				_ = unix.Kill(s.pid, sig.(unix.Signal))
			case <-s.done:
				signal.Stop(c)
				return
			}
		}
	}()
}
