//go:build linux

package notify

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// Chdir makes the folder behind our fd the caller's working directory, and answers the call with the result.
// Nobody can change it but the thread itself: it is stopped on its way back from the call, and sent into another one. A
// thread that a debugger has refuses.
func (c *Call) Chdir(fd int) {
	runtime.LockOSThread() // the kernel knows tracers by their thread
	defer runtime.UnlockOSThread()
	if unix.PtraceSeize(c.TID) != nil {
		c.Errno(unix.EACCES)
		return
	}
	at, err := c.InstallFD(fd, unix.O_CLOEXEC)
	if err == nil {
		// Asked to stop before it is answered, it stops before it is back in the program.
		err = unix.PtraceInterrupt(c.TID)
	}
	if err != nil {
		c.Errno(unix.EMFILE)
	} else {
		c.Errno(unix.EINTR)
	}
	t := &tracee{tid: c.TID}
	if t.stop() != nil {
		return // it was killed
	}
	defer t.detach()
	if err != nil || unix.PtraceSetOptions(t.tid, unix.PTRACE_O_TRACESYSGOOD) != nil {
		return
	}
	saved, err := getRegs(t.tid)
	if err != nil {
		return
	}
	result, err := t.call(saved, unix.SYS_FCHDIR, at)
	if err == nil {
		_, err = t.call(saved, unix.SYS_CLOSE, at)
	}
	if err == nil {
		setResult(saved, result)
		_ = setRegs(t.tid, saved)
	}
}

// tracee is a thread that we trace.
type tracee struct {
	tid     int
	signals []unix.Signal // that came meanwhile
	gone    bool
	call0   bool // it stands at a system call, before or after it
}

// stop waits until the thread stands still.
func (t *tracee) stop() error {
	for {
		var st unix.WaitStatus
		_, err := unix.Wait4(t.tid, &st, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || !st.Stopped():
			t.gone = true
			return unix.ESRCH
		}
		event := uint32(st) >> 16
		sig := unix.Signal(uint32(st) >> 8 & 0xff)
		t.call0 = event == 0 && sig == unix.SIGTRAP|0x80
		if event == 0 && !t.call0 {
			t.signals = append(t.signals, sig)
		}
		return nil
	}
}

// detach lets the thread go on. Signals that it was to get meanwhile it gets now.
func (t *tracee) detach() {
	if t.gone {
		return
	}
	_ = unix.PtraceDetach(t.tid)
	for _, sig := range t.signals {
		if pid, err := guest.TGID(t.tid); err == nil {
			_ = unix.Tgkill(pid, t.tid, sig)
		}
	}
}

// call has the thread make a system call.
func (t *tracee) call(saved *registers, nr, arg int) (result int64, err error) {
	regs := *saved
	setCall(&regs, uint64(nr), uint64(arg))
	if err := setRegs(t.tid, &regs); err != nil {
		return 0, err
	}
	for stops := 0; stops < 2; { // on its way in, and out
		if err := unix.PtraceSyscall(t.tid, 0); err != nil {
			return 0, err
		}
		if err := t.stop(); err != nil {
			return 0, err
		}
		if t.call0 {
			stops++
		}
	}
	after, err := getRegs(t.tid)
	if err != nil {
		return 0, err
	}
	return resultOf(after), nil
}
