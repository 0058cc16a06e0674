package ibv

import "golang.org/x/sys/unix"

func dupCloexec(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

// errNoData is the kernel's answer for an empty GID entry.
const errNoData = unix.ENODATA
