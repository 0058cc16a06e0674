package dcb

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Read asks the kernel for the state of an interface.
func Read(netdev string) (*Port, error) {
	p, err := read(netdev)
	if err != nil {
		return nil, fmt.Errorf("netlink (RTM_GETDCB) of %s: %w", netdev, err)
	}
	return p, nil
}

func read(netdev string) (*Port, error) {
	if len(netdev) == 0 || len(netdev) >= unix.IFNAMSIZ {
		return nil, unix.ENODEV
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	// The kernel replies at once. A driver that asks its firmware meanwhile must not stop a doctor.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return nil, err
	}
	body := request(netdev)
	msg := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	msg = binary.NativeEndian.AppendUint16(msg, unix.RTM_GETDCB)
	msg = binary.NativeEndian.AppendUint16(msg, unix.NLM_F_REQUEST)
	msg = binary.NativeEndian.AppendUint64(msg, 0) // no sequence: one reply
	if err := unix.Sendto(fd, append(msg, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	reply := make([]byte, 64<<10)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return nil, err
	}
	return parseMessage(reply[:n])
}

// parseMessage reads a reply with its header.
func parseMessage(b []byte) (*Port, error) {
	if len(b) < unix.SizeofNlMsghdr {
		return nil, errShort
	}
	n, typ := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint16(b[4:])
	if n < unix.SizeofNlMsghdr || uint64(n) > uint64(len(b)) {
		return nil, errShort
	}
	body := b[unix.SizeofNlMsghdr:n]
	switch typ {
	case unix.NLMSG_ERROR:
		if len(body) < 4 {
			return nil, errShort
		}
		if e := int32(binary.NativeEndian.Uint32(body)); e < 0 && e > -4096 {
			return nil, syscall.Errno(-e)
		}
		return nil, fmt.Errorf("the kernel sent no state")
	case unix.RTM_GETDCB:
		return parse(body)
	}
	return nil, fmt.Errorf("message of type %d, want %d", typ, unix.RTM_GETDCB)
}
