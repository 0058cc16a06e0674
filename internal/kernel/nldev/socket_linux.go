package nldev

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	family = 20 // C: NETLINK_RDMA

	patience = 5 * time.Second // the kernel answers at once
)

// with calls f with a connection.
func with[T any](f func(exchange) (T, error)) (T, error) {
	var none T
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return none, err
	}
	defer unix.Close(fd)
	wait := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return none, err
	}
	buf := make([]byte, 1<<16)
	read := func() ([]byte, error) {
		for {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if err != unix.EINTR {
				return buf[:max(n, 0)], err
			}
		}
	}
	seq := uint32(0)
	return f(func(typ, flags uint16, attributes []byte, do func(map[uint16][]byte)) error {
		seq++
		if flags&flagDump == 0 {
			flags |= flagAck
		}
		to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
		if err := unix.Sendto(fd, request(typ, flags, seq, attributes), 0, to); err != nil {
			return err
		}
		return answers(seq, read, do)
	})
}
