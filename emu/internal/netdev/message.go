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

// AppendAttr appends an attribute.
func AppendAttr(b []byte, typ uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, typ), value...)
	for len(b)%unix.NLA_ALIGNTO != 0 {
		b = append(b, 0)
	}
	return b
}

func (m *message) attr(typ int, value []byte) { m.b = AppendAttr(m.b, uint16(typ), value) }

func (m *message) text(typ int, s string) { m.attr(typ, append([]byte(s), 0)) }

func (m *message) u32(typ, v int) { m.attr(typ, binary.NativeEndian.AppendUint32(nil, uint32(v))) }

// open begins an attribute that contains others.
func (m *message) open(typ int) {
	m.nests = append(m.nests, len(m.b))
	m.attr(typ, nil)
}

func (m *message) close() {
	at := m.nests[len(m.nests)-1]
	m.nests = m.nests[:len(m.nests)-1]
	binary.NativeEndian.PutUint16(m.b[at:], uint16(len(m.b)-at))
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
		Split(buf[:n], func(header, body []byte) {
			switch typ := binary.NativeEndian.Uint16(header[4:]); {
			case binary.NativeEndian.Uint32(header[8:]) != seq || done:
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

// Split calls f for each message of a datagram.
func Split(b []byte, f func(header, body []byte)) {
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return // the kernel makes none
		}
		f(b[:unix.SizeofNlMsghdr], b[unix.SizeofNlMsghdr:size])
		b = b[min((size+3)&^3, len(b)):]
	}
}

// Attrs calls f for each attribute.
func Attrs(b []byte, f func(typ uint16, value []byte)) {
	for len(b) >= unix.SizeofNlAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofNlAttr || size > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.SizeofNlAttr:size])
		b = b[min((size+3)&^3, len(b)):]
	}
}
