//go:build linux

package engine

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nap sleeps. Short naps hold Go's processor: handing it over and getting it back takes longer than they do. Long ones
// are the scheduler's, which keeps looking after a thread that is in a system call.
func nap(d int64) {
	if d >= int64(time.Millisecond) {
		time.Sleep(time.Duration(d))
		return
	}
	t := unix.NsecToTimespec(d)
	p := uintptr(unsafe.Pointer(&t))
	if d <= int64(60*time.Microsecond) {
		_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, p, 0, 0)
	} else {
		_, _, _ = unix.Syscall(unix.SYS_NANOSLEEP, p, 0, 0)
	}
	runtime.KeepAlive(&t)
}
