package rsocket

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sockets returns the descriptors of this process that are sockets, by their names, which no two sockets ever share.
func sockets() map[string]int {
	const dir = "/proc/self/fd"
	found := map[string]int{}
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		name, _ := os.Readlink(filepath.Join(dir, e.Name()))
		if err == nil && strings.HasPrefix(name, "socket:") {
			found[name] = fd
		}
	}
	return found
}

// isQueue reports whether fd may be the end of a socketpair from which a raccept that does not block reads.
func isQueue(fd int) bool {
	sa, err := unix.Getsockname(fd)
	if _, ok := sa.(*unix.SockaddrUnix); err != nil || !ok {
		return false
	}
	status, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || status&unix.O_NONBLOCK == 0 {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0 // Go's own sockets have it
}
