package launch

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrAsked means that a launcher asks on a terminal that this process does not have either.
var ErrAsked = errors.New("it asks on the terminal, and rdmaperf mesh is in the background: start rdmaperf mesh in " +
	"the foreground, or give the launcher an option not to ask, such as ssh -o BatchMode=yes")

// terminal is the controlling terminal of this process. A launcher is a process group of its own, so that signals of
// the terminal do not reach it, and the kernel stops it when it reads the terminal. Then it is lent the terminal.
type terminal struct {
	mu   sync.Mutex
	file *os.File // while it is lent
	own  int      // process group that had it
}

// watch waits for the end of a launcher, and leaves it to be reaped. It returns an error that has to replace that of
// the launcher.
func (t *terminal) watch(pid int) error {
	var refused error
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || info.Code != cldStopped {
			return refused
		}
		var status unix.WaitStatus
		got, err := unix.Wait4(pid, &status, unix.WUNTRACED|unix.WNOHANG, nil)
		if got == pid && (status.Exited() || status.Signaled()) { // meanwhile
			return fmt.Errorf("%w: it was killed while it was stopped", os.ErrProcessDone)
		}
		switch {
		case err != nil || got == 0:
		case status.StopSignal() == unix.SIGTTIN, status.StopSignal() == unix.SIGTTOU:
			if refused = t.lend(pid); refused != nil {
				unix.Kill(-pid, unix.SIGKILL)
			}
		case status.StopSignal() == unix.SIGTSTP && t.takeBack():
			unix.Kill(0, unix.SIGSTOP) // the user stops all of this, and the shell continues this group
			if refused = t.lend(pid); refused != nil {
				unix.Kill(-pid, unix.SIGKILL)
			}
		}
	}
}

const cldStopped = 5 // CLD_STOPPED

// lend makes a process group that of the foreground, and continues it.
func (t *terminal) lend(group int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrAsked, err)
	}
	t.own = unix.Getpgrp()
	if at, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP); err != nil || at != t.own {
		file.Close()
		return ErrAsked
	}
	signal.Ignore(unix.SIGTTOU) // in the background, to write and to take the terminal back
	if err := unix.IoctlSetPointerInt(int(file.Fd()), unix.TIOCSPGRP, group); err != nil {
		file.Close()
		return fmt.Errorf("%w (%w)", ErrAsked, err)
	}
	t.file = file
	return unix.Kill(-group, unix.SIGCONT)
}

// takeBack makes the own process group that of the foreground again, and reports whether it was not.
func (t *terminal) takeBack() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return false
	}
	unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, t.own)
	t.file.Close()
	t.file = nil
	return true
}

// over takes the terminal back from a launcher that has ended. An interrupt from the keyboard that ended it was meant
// for this process too.
func (t *terminal) over(p *os.ProcessState) {
	if !t.takeBack() || p == nil {
		return
	}
	if s, ok := p.Sys().(interface{ Signal() (s unix.Signal) }); ok && s.Signal() == unix.SIGINT {
		unix.Kill(-p.Pid(), unix.SIGTERM)
		unix.Kill(os.Getpid(), unix.SIGINT)
	}
}
