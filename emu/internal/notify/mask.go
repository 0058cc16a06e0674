//go:build linux

package notify

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// maskSignals keeps signals from this goroutine's thread until restore.
func maskSignals() (restore func()) {
	runtime.LockOSThread()
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old)
	return func() {
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
		runtime.UnlockOSThread()
	}
}
