package netlink

import "golang.org/x/sys/unix"

const patience = 5000 // milliseconds; the kernel answers before the message is sent

// With calls f with a connection to a family, as in NETLINK_ROUTE.
func With[T any](family int, f func(Ask) (T, error)) (T, error) {
	var none T
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return none, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 1<<16)
	read := func() ([]byte, error) {
		for late := false; ; {
			n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
			switch {
			case err == unix.EAGAIN && !late:
				_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, patience)
				late = err != unix.EINTR
			case err != unix.EINTR:
				return buf[:max(n, 0)], err
			}
		}
	}
	seq := uint32(0)
	return f(func(typ, flags uint16, body []byte, do func(uint16, []byte) error) error {
		seq++
		to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
		if err := unix.Sendto(fd, request(typ, flags, seq, body), 0, to); err != nil {
			return err
		}
		return answers(seq, flags&FlagDump != 0, read, do)
	})
}
