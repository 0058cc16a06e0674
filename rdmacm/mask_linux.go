package rdmacm

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// undisturbed runs f on a thread that gets no signals: one with which Go's runtime preempts a goroutine would interrupt
// the system call, and the kernel would begin it again.
func undisturbed(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	for _, fault := range []syscall.Signal{unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGSEGV, unix.SIGSYS,
		unix.SIGTRAP} {
		n := uint(fault) - 1
		all.Val[n/64] &^= 1 << (n % 64)
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, &before); err != nil {
		return f()
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	return f()
}
