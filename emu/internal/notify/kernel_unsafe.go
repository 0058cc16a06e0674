//go:build linux

package notify

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif, with room for what a later kernel may add.
type notification struct {
	ID         uint64
	PID, Flags uint32
	Nr         int32
	Arch       uint32
	IP         uint64
	Args       [6]uint64
	_          [176]byte
}

// response is struct seccomp_notif_resp.
type response struct {
	ID    uint64
	Val   int64
	Error int32
	Flags uint32
}

// addfd is struct seccomp_notif_addfd.
type addfd struct {
	ID                            uint64
	Flags, SrcFD, NewFD, NewFlags uint32
}

const (
	ioctlRecv     = unix.SECCOMP_IOCTL_NOTIF_RECV
	ioctlSend     = unix.SECCOMP_IOCTL_NOTIF_SEND
	ioctlIDValid  = unix.SECCOMP_IOCTL_NOTIF_ID_VALID
	ioctlAddFD    = unix.SECCOMP_IOCTL_NOTIF_ADDFD
	ioctlSetFlags = unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS
)

func bytesOf[T any](p *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)) }

func receive(fd int, n *notification) unix.Errno {
	*n = notification{} // the kernel insists
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlRecv, uintptr(unsafe.Pointer(n)))
	return e
}

// quick is an ioctl that does not wait.
func quick(fd int, request uintptr, arg unsafe.Pointer) unix.Errno {
	for {
		if _, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); e != unix.EINTR {
			return e
		}
	}
}

func respond(fd int, r *response) unix.Errno { return quick(fd, ioctlSend, unsafe.Pointer(r)) }

func idValid(fd int, id uint64) bool { return quick(fd, ioctlIDValid, unsafe.Pointer(&id)) == 0 }

// addFD waits for the thread to install the descriptor. A signal in that wait could make the kernel answer 0 for a
// descriptor that it did not install, so there are none.
func addFD(fd int, a *addfd) (int, unix.Errno) {
	restore := maskSignals()
	defer restore()
	r, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlAddFD, uintptr(unsafe.Pointer(a)))
	return int(r), e
}

// syncWakeUp has the kernel run caller and answerer in turns on one CPU. Older kernels do without.
func syncWakeUp(fd int) {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlSetFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}

// install puts the filter on this thread.
func install(p prog) (listener int, e unix.Errno) {
	f := unix.SockFprog{Len: uint16(len(p)), Filter: unsafe.SliceData(p)}
	r, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&f)))
	return int(r), e
}

// kernelSize is the size of the kernel's struct seccomp_notif.
func kernelSize() (int, error) {
	var sizes [3]uint16
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0,
		uintptr(unsafe.Pointer(&sizes))); e != 0 {
		return 0, e
	}
	return int(sizes[0]), nil
}

// canary is what the supervisor reads from the shim, to check that it can.
var canary = [8]byte{'p', 'u', 'r', 'e', 'v', 'e', 'r', 'b'}

func canaryAddr() uint64 { return uint64(uintptr(unsafe.Pointer(&canary))) }
