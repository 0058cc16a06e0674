package ibv

import "golang.org/x/sys/unix"

// errNoData is the kernel's answer for an empty GID entry.
const errNoData = unix.ENODATA
