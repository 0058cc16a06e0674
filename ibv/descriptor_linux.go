package ibv

import (
	"os"

	"golang.org/x/sys/unix"
)

func dupDescriptor(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

// closeRefused closes fd, a duplicate of orig that libibverbs refused to import, unless libibverbs
// has closed it: that depends on the reason. By now the number may belong to another file.
func closeRefused(fd, orig int) {
	const kcmpFile = 0
	pid := uintptr(os.Getpid())
	r, _, e := unix.Syscall6(unix.SYS_KCMP, pid, pid, kcmpFile, uintptr(fd), uintptr(orig), 0)
	if e == 0 && r == 0 {
		_ = unix.Close(fd)
	}
}
