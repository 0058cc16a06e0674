package testutil

import (
	"runtime"
	"syscall"
)

// OnThread calls f on a thread that has not opened anything, and that has credentials of its own if the process may
// change them: otherwise it shares those of the thread that made it, which may be the one that has opened a file.
func OnThread(f func()) {
	runtime.LockOSThread() // otherwise this thread may be the one
	defer runtime.UnlockOSThread()
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // and ends with the goroutine
		defer close(done)
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0)
		f()
	}()
	<-done
}
