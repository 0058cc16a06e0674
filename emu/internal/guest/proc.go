//go:build linux

package guest

import (
	"bytes"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

func procPath(tid int, rest string) string { return "/proc/" + strconv.Itoa(tid) + "/" + rest }

// found has the process of the thread that was looked for last, by the low bits of its number.
var found [256]atomic.Int32

// TGID returns the process of a thread. It looks where the thread was found before: /proc is dear.
func TGID(tid int) (int, error) {
	at := &found[uint(tid)%uint(len(found))]
	if pid := int(at.Load()); pid != 0 && unix.Tgkill(pid, tid, 0) == nil {
		return pid, nil
	}
	pid, err := processOf(tid)
	if err == nil {
		at.Store(int32(pid))
	}
	return pid, err
}

func processOf(tid int) (int, error) {
	// Only the first thread of a process has a pidfd.
	if f, _, e := unix.RawSyscall(unix.SYS_PIDFD_OPEN, uintptr(tid), 0, 0); e == 0 {
		_ = unix.Close(int(f))
		return tid, nil
	}
	if pid, ok := StatusOf(tid).Number("Tgid", 10); ok {
		return int(pid), nil
	}
	return 0, ErrGone
}

// Belongs reports whether a thread is one of a process.
func Belongs(tid, pid int) bool {
	switch unix.Tgkill(pid, tid, 0) {
	case nil:
		return true
	case unix.EPERM: // of another user
		return unix.Access(procPath(pid, "task/"+strconv.Itoa(tid)), unix.F_OK) == nil
	}
	return false
}

// FDFlags returns the open flags of descriptor fd: O_NONBLOCK and the like.
func FDFlags(tid, fd int) (int, error) {
	var buf [1024]byte
	if fd < 0 {
		return 0, unix.EBADF
	}
	b, _ := readProc(tid, "fdinfo/", fd, buf[:])
	if flags, ok := Status(b).Number("flags", 8); ok {
		return int(flags), nil
	}
	return 0, unix.EBADF
}

// Stat returns the fields of /proc/PID/stat behind the name, which may have anything in it; none if there is no such
// process.
func Stat(pid int) [][]byte {
	var buf [1024]byte
	b, _ := readProc(pid, "stat", -1, buf[:])
	return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
}

// Lives reports whether a process is there and not about to end.
func Lives(pid int) bool {
	const exiting = 4 // PF_EXITING
	f := Stat(pid)
	if len(f) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(string(f[6]), 10, 64)
	return err == nil && flags&exiting == 0
}

// FutexWait returns the address of the futex that a thread waits for.
func FutexWait(tid int) (addr uint64, ok bool) {
	var buf [256]byte
	b, e := readProc(tid, "syscall", -1, buf[:])
	f := bytes.Fields(b)
	if e != 0 || len(f) < 2 || string(f[0]) != strconv.Itoa(unix.SYS_FUTEX) {
		return 0, false
	}
	addr, err := strconv.ParseUint(string(f[1]), 0, 64)
	return addr, err == nil
}
