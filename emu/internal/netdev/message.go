//go:build linux

package netdev

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// Message is a message of netlink's that is being made: its header, then what the type wants, then attributes.
type Message []byte

func newMessage(typ, flags int, body []byte) *Message {
	m := make(Message, unix.SizeofNlMsghdr)
	binary.NativeEndian.PutUint16(m[4:], uint16(typ))
	binary.NativeEndian.PutUint16(m[6:], uint16(flags|unix.NLM_F_REQUEST))
	m = append(m, body...)
	return &m
}

// Attr appends an attribute.
func (m *Message) Attr(typ uint16, value []byte) {
	b := binary.NativeEndian.AppendUint16(*m, uint16(unix.SizeofNlAttr+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, typ), value...)
	for len(b)%unix.NLA_ALIGNTO != 0 {
		b = append(b, 0)
	}
	*m = b
}

// Text appends a string, U32 and U64 a number.
func (m *Message) Text(typ uint16, s string) { m.Attr(typ, append([]byte(s), 0)) }
func (m *Message) U32(typ uint16, v uint32)  { m.Attr(typ, binary.NativeEndian.AppendUint32(nil, v)) }
func (m *Message) U64(typ uint16, v uint64)  { m.Attr(typ, binary.NativeEndian.AppendUint64(nil, v)) }

// Nest puts what body appends into one attribute.
func (m *Message) Nest(typ uint16, body func()) {
	at := len(*m)
	m.Attr(typ, nil)
	body()
	binary.NativeEndian.PutUint16((*m)[at:], uint16(len(*m)-at))
}

// exchange sends a request and gives each part of the answer to got. The kernel's refusal is an errno.
func exchange(fd int, seq uint32, m Message, got func(typ uint16, body []byte)) error {
	binary.NativeEndian.PutUint32(m, uint32(len(m)))
	binary.NativeEndian.PutUint32(m[8:], seq)
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
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
