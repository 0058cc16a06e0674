//go:build linux && (amd64 || arm64)

package machine

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/nldev"
	"github.com/pureverbs/pureverbs/emu/internal/notify"
)

// rdmaNetlink stands for the kernel's side of RDMA netlink. Programs get sockets of NETLINK_USERSOCK, on which
// processes may send to each other: all is the kernel's business but what is sent to port 0, where nobody is.
type rdmaNetlink struct {
	server nldev.Server
	fresh  func() // brings ports up to date; the fabric's lock is held
	once   sync.Once
	fd     int
}

// socket answers the making of a socket.
func (r *rdmaNetlink) socket(c *notify.Call) {
	typ := int(c.Args[1])
	fd, err := unix.Socket(unix.AF_NETLINK, typ|unix.SOCK_CLOEXEC, unix.NETLINK_USERSOCK)
	if err != nil {
		c.Errno(errno(err))
		return
	}
	c.AddFD(fd, typ) // SOCK_CLOEXEC is O_CLOEXEC
	unix.Close(fd)
}

// sendto answers a request to the kernel, on such a socket.
func (r *rdmaNetlink) sendto(c *notify.Call) {
	addr := make([]byte, unix.SizeofSockaddrNetlink) // family, pad, port id, groups
	if c.Args[5] != uint64(len(addr)) || c.Mem().Read(c.Args[4], addr) != nil ||
		[2]byte(addr[:2]) != [2]byte{unix.AF_NETLINK} || [8]byte(addr[4:]) != [8]byte{} {
		c.Continue()
		return
	}
	fd, err := guest.TakeFD(c.TID, c.FD())
	if err != nil {
		c.Continue()
		return
	}
	defer unix.Close(fd)
	port, ok := userSocket(fd)
	if !ok {
		c.Continue()
		return
	}
	size := c.Args[2]
	if size > nldev.MaxRequest {
		c.Errno(unix.EMSGSIZE)
		return
	}
	req := make([]byte, size)
	if c.Mem().Read(c.Args[1], req) != nil {
		c.Errno(unix.EFAULT)
		return
	}
	r.once.Do(func() {
		r.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_USERSOCK)
		if err != nil {
			r.fd = -1
		}
	})
	who, err := guest.RightsOf(c.TID)
	admin := err == nil && who.Caps&(1<<unix.CAP_NET_ADMIN) != 0
	r.server.Fabric.Lock()
	r.fresh()
	answer := r.server.Answer(port, admin, req)
	r.server.Fabric.Unlock()
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: port}
	for i, m := range answer {
		switch err := unix.Sendto(r.fd, m, unix.MSG_DONTWAIT, to); {
		case err == unix.EAGAIN: // the rest of a long dump as the program reads it
			go r.rest(answer[i:], to)
			c.Return(int64(size))
			return
		case err != nil:
			c.Errno(unix.ENOBUFS)
			return
		}
	}
	c.Return(int64(size))
}

// rest sends what did not fit, until the program has it, closes its socket or reads nothing for a while.
func (r *rdmaNetlink) rest(answer [][]byte, to unix.Sockaddr) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_USERSOCK)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 60})
	for _, m := range answer {
		for {
			if err = unix.Sendto(fd, m, 0, to); err != unix.EINTR {
				break
			}
		}
		if err != nil {
			return
		}
	}
}

// userSocket returns the port id of a socket that socket made, binding it first.
func userSocket(fd int) (port uint32, ok bool) {
	domain, err1 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	protocol, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err1 != nil || err2 != nil || domain != unix.AF_NETLINK || protocol != unix.NETLINK_USERSOCK {
		return 0, false
	}
	for range 2 {
		sa, err := unix.Getsockname(fd)
		nl, is := sa.(*unix.SockaddrNetlink)
		if err != nil || !is {
			return 0, false
		}
		if nl.Pid != 0 {
			return nl.Pid, true
		}
		if unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
			return 0, false
		}
	}
	return 0, false
}

func errno(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if e, ok := err.(unix.Errno); ok {
		return e
	}
	return unix.EIO
}
