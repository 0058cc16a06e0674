package ibv

import "golang.org/x/sys/unix"

// errNoData is the errno of an empty GID entry.
const errNoData = unix.ENODATA
