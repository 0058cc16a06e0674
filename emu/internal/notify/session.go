//go:build linux

package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// Session is a program that runs. It is safe for concurrent use.
type Session struct {
	cfg      Config
	spec     spec
	handler  Handler
	listener int
	pid      int // the program
	init     int
	ctl      int
	ctlMu    sync.Mutex // ctl is -1 once closed

	closing   atomic.Bool
	mu        sync.Mutex
	receivers map[*receiver]bool
	running   sync.WaitGroup

	done chan struct{}
	code int
	err  error
}

// Start runs a program whose trapped calls h answers. A *ProbeError names what the machine lacks.
func Start(cfg Config, h Handler) (*Session, error) { return start(cfg, h, false) }

func start(cfg Config, h Handler, probe bool) (*Session, error) {
	s := &Session{cfg: cfg, handler: h, listener: -1, ctl: -1, done: make(chan struct{})}
	s.spec = spec{cfg.IoctlCmds, cfg.TrapNetlink, cfg.Scratch}
	if len(cfg.Argv) == 0 {
		return nil, errors.New("no program to run")
	}
	file := cfg.Argv[0]
	if !strings.Contains(file, "/") {
		var err error
		if file, err = exec.LookPath(file); err != nil {
			return nil, err
		}
	}
	if err := notifications(); err != nil {
		return nil, err
	}
	signals := make(chan os.Signal, 8)
	catch(signals, cfg.Forward...)
	up, err := s.fork(file)
	if err != nil {
		signal.Stop(signals)
		return nil, err
	}
	if err := s.handshake(up, probe); err != nil || probe {
		signal.Stop(signals)
		unix.Close(up)
		s.closeCtl()
		ended(s.init)
		if s.listener >= 0 {
			unix.Close(s.listener)
		}
		return nil, err
	}
	unix.Close(up)
	syncWakeUp(s.listener)
	s.receivers = map[*receiver]bool{}
	s.running.Add(1)
	go s.receive()
	go s.wait()
	go s.forward(signals)
	return s, nil
}

// fork starts the init. up leads to the shim.
func (s *Session) fork(file string) (up int, err error) {
	text, err := json.Marshal(&s.spec)
	if err != nil {
		return -1, err
	}
	env := s.cfg.Env
	if env == nil {
		env = os.Environ()
	}
	if n := s.cfg.Net; n != nil {
		args := append([]string{roleInit, string(text), "", "", file}, s.cfg.Argv...)
		s.init, s.ctl, up, err = n.start(&becoming{args, env})
	} else {
		std := [3]uintptr{0, 1, 2}
		for i, f := range []*os.File{s.cfg.Stdin, s.cfg.Stdout, s.cfg.Stderr} {
			if f != nil {
				std[i] = f.Fd()
			}
		}
		args := append([]string{string(text), file}, s.cfg.Argv...)
		s.init, s.ctl, up, err = spawn(roleInit, std, env, nil, args...)
		runtime.KeepAlive(s.cfg)
	}
	if err != nil {
		return -1, fmt.Errorf("start %s: %w", file, err)
	}
	return up, nil
}

// spawn starts this program in a role, with its first argument, two descriptors that lead here, and its other
// arguments.
func spawn(role string, std [3]uintptr, env []string, attr *syscall.SysProcAttr, args ...string) (
	pid, ctl, up int, err error) {
	var ctls, ups [2]int
	ctls, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		if ups, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
			unix.Close(ctls[0])
			unix.Close(ctls[1])
		}
	}
	if err != nil {
		return 0, -1, -1, os.NewSyscallError("socketpair", err)
	}
	files := inherited(std[:]...)
	n := len(files)
	files = append(files, uintptr(ctls[1]), uintptr(ups[1]))
	if env == nil {
		env = os.Environ()
	}
	argv := append([]string{role, args[0], strconv.Itoa(n), strconv.Itoa(n + 1)}, args[1:]...)
	pid, err = syscall.ForkExec("/proc/self/exe", argv, &syscall.ProcAttr{Env: env, Files: files, Sys: attr})
	unix.Close(ctls[1])
	unix.Close(ups[1])
	if err != nil {
		unix.Close(ctls[0])
		unix.Close(ups[0])
		return 0, -1, -1, err
	}
	return pid, ctls[0], ups[0], nil
}

// inherited are the descriptors that a program gets which is started without a supervisor: the first three and what is
// not closed on exec.
func inherited(std ...uintptr) []uintptr {
	files := std
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return files
	}
	for _, e := range dir {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < len(std) {
			continue
		}
		if fl, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || fl&unix.FD_CLOEXEC != 0 {
			continue
		}
		for len(files) <= fd {
			files = append(files, ^uintptr(0))
		}
		files[fd] = uintptr(fd)
	}
	return files
}

// handshake gets the listener from the shim and lets it become the program, unless this is only a probe.
func (s *Session) handshake(up int, probe bool) error {
	buf := make([]byte, 256)
	n, fds, err := take(up, buf, 1)
	if err != nil || n == 0 {
		return fmt.Errorf("start %s: the launcher ended early: %w", s.cfg.Argv[0], errors.Join(err, unix.ECHILD))
	}
	var addr uint64
	if _, err := fmt.Sscanf(string(buf[:n]), "L %d %d", &s.pid, &addr); err != nil {
		return s.failure(string(buf[:n]))
	}
	if len(fds) != 1 {
		return fmt.Errorf("start %s: no listener came: %w", s.cfg.Argv[0], unix.EPROTO)
	}
	s.listener = fds[0]
	if err := access(s.pid, addr); err != nil {
		return err
	}
	if probe {
		return nil
	}
	if err := unix.Sendto(up, []byte("go"), unix.MSG_NOSIGNAL, nil); err != nil {
		return fmt.Errorf("start %s: %w", s.cfg.Argv[0], err)
	}
	if n, err = recv(up, buf); err == nil && n > 0 {
		return s.failure(string(buf[:n]))
	}
	return nil
}

// failure is the error for what the shim or the init reports.
func (s *Session) failure(text string) error {
	var step string
	var e int
	if _, err := fmt.Sscanf(text, "E %s %d", &step, &e); err != nil {
		return fmt.Errorf("start %s: the launcher says %q", s.cfg.Argv[0], text)
	}
	if p := probeError(step, unix.Errno(e)); p != nil {
		return p
	}
	return &os.PathError{Op: step, Path: s.cfg.Argv[0], Err: unix.Errno(e)}
}

// wait waits for the init, which is the last, and stops the receivers.
func (s *Session) wait() {
	st := ended(s.init)
	s.closeCtl()
	s.closing.Store(true)
	idle := make(chan struct{})
	go func() {
		s.running.Wait()
		close(idle)
	}()
	// A signal that comes just before a wait is lost, so there is more than one. A receiver whose handler hangs is left
	// behind.
	for range 1000 {
		s.mu.Lock()
		for r := range s.receivers {
			if r.waiting.Load() {
				_ = unix.Tgkill(unix.Getpid(), r.tid, unix.SIGURG)
			}
		}
		s.mu.Unlock()
		select {
		case <-idle:
		case <-time.After(time.Millisecond):
			continue
		}
		break
	}
	unix.Close(s.listener)
	if s.code = st.ExitStatus(); st.Signaled() {
		s.code, s.err = 128+int(st.Signal()), fmt.Errorf("the program's init was killed: %v", st.Signal())
	}
	close(s.done)
}

func (s *Session) closeCtl() {
	s.ctlMu.Lock()
	defer s.ctlMu.Unlock()
	if s.ctl >= 0 {
		unix.Close(s.ctl)
		s.ctl = -1
	}
}

// Wait waits for the program's end, and that of its descendants, and returns its exit code: 128 plus the signal if one
// killed it.
func (s *Session) Wait() (int, error) {
	<-s.done
	return s.code, s.err
}

// Signal sends sig to the program, if it still runs.
func (s *Session) Signal(sig unix.Signal) error {
	s.ctlMu.Lock()
	defer s.ctlMu.Unlock()
	if s.ctl < 0 {
		return os.ErrProcessDone
	}
	return unix.Sendto(s.ctl, []byte{byte(sig)}, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, nil)
}

// forward passes signals on until the program has ended.
func (s *Session) forward(c chan os.Signal) {
	defer signal.Stop(c)
	for {
		select {
		case <-s.done:
			return
		case sig := <-c:
			n, ok := sig.(unix.Signal)
			if ok && ((n != unix.SIGINT && n != unix.SIGQUIT) || !foreground()) {
				_ = s.Signal(n)
			}
		}
	}
}

// catch is signal.Notify, except for signals that are ignored: they stay ignored, in the program as well.
func catch(c chan os.Signal, sigs ...os.Signal) {
	for _, sig := range sigs {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}

// foreground reports whether keys of the terminal signal this process and, with it, the program.
func foreground() bool {
	tty, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(tty)
	group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// access checks that this process may read the memory of the program.
func access(pid int, addr uint64) error {
	var got [8]byte
	if err := (guest.Mem{PID: pid}).Read(addr, got[:]); err != nil || got != canary {
		return probeError("process_vm_readv", unix.EPERM)
	}
	return nil
}
