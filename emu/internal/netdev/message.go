//go:build linux

package netdev

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// message is a request of rtnetlink's: its header, then what the type wants, then attributes.
type message struct {
	b     []byte
	nests []int // where those begin that are open
}

func newMessage(typ, flags int, body []byte) *message {
	m := &message{b: make([]byte, unix.SizeofNlMsghdr)}
	binary.NativeEndian.PutUint16(m.b[4:], uint16(typ))
	binary.NativeEndian.PutUint16(m.b[6:], uint16(flags|unix.NLM_F_REQUEST))
	m.b = append(m.b, body...)
	return m
}

func (m *message) align() {
	for len(m.b)%unix.NLA_ALIGNTO != 0 {
		m.b = append(m.b, 0)
	}
}

func (m *message) attr(typ int, value []byte) {
	m.open(typ)
	m.b = append(m.b, value...)
	m.close()
}

func (m *message) text(typ int, s string) { m.attr(typ, append([]byte(s), 0)) }

func (m *message) u32(typ, v int) { m.attr(typ, binary.NativeEndian.AppendUint32(nil, uint32(v))) }

// open begins an attribute that contains others.
func (m *message) open(typ int) {
	m.align()
	m.nests = append(m.nests, len(m.b))
	m.b = binary.NativeEndian.AppendUint16(append(m.b, 0, 0), uint16(typ))
}

func (m *message) close() {
	at := m.nests[len(m.nests)-1]
	m.nests = m.nests[:len(m.nests)-1]
	binary.NativeEndian.PutUint16(m.b[at:], uint16(len(m.b)-at))
	m.align()
}

// exchange sends a request and gives each part of the answer to got. The kernel's refusal is an errno.
func exchange(fd int, seq uint32, m *message, got func(typ uint16, body []byte)) error {
	binary.NativeEndian.PutUint32(m.b, uint32(len(m.b)))
	binary.NativeEndian.PutUint32(m.b[8:], seq)
	if err := unix.Sendto(fd, m.b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		done := false
		split(buf[:n], func(typ uint16, s uint32, body []byte) {
			switch {
			case s != seq || done:
			case typ == unix.NLMSG_DONE:
				done = true
			case typ == unix.NLMSG_ERROR && len(body) >= 4:
				done = true
				if e := int32(binary.NativeEndian.Uint32(body)); e != 0 {
					err = unix.Errno(-e)
				}
			case got != nil:
				got(typ, body)
			}
		})
		if done {
			return err
		}
	}
}

// split calls f for each message of a datagram.
func split(b []byte, f func(typ uint16, seq uint32, body []byte)) {
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return // the kernel makes none
		}
		f(binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint32(b[8:]), b[unix.SizeofNlMsghdr:size])
		b = b[min((size+3)&^3, len(b)):]
	}
}

// attrs calls f for each attribute.
func attrs(b []byte, f func(typ uint16, value []byte)) {
	for len(b) >= unix.SizeofNlAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofNlAttr || size > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.SizeofNlAttr:size])
		b = b[min((size+3)&^3, len(b)):]
	}
}
