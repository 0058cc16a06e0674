package rsocket

import (
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
)

// librdmacm copies a datagram, behind a header with the sender's address, into a slot of this size. It does not look
// whether there is room (v44.0:librdmacm/rsocket.c:2757).
const (
	slotSize   = 2048
	headerIPv4 = 8
	headerIPv6 = 24
)

// checkDatagram rejects what would make librdmacm write where it must not: a datagram without a peer, or a long one.
func (s *Socket) checkDatagram(op string, size int, peer bool) error {
	room := slotSize - headerIPv4
	if s.domain != DomainINET {
		room = slotSize - headerIPv6
	}
	switch {
	case s.typ != Datagram:
	case !peer:
		return &Error{Op: op, Errno: syscall.ENOTCONN}
	case size > room:
		return &ibv.LimitError{What: "bytes in a datagram", Asked: uint64(size), Limit: uint64(room), Where: op}
	}
	return nil
}

// stream rejects calls that librdmacm has for streams only, and does not refuse.
func (s *Socket) stream(op string) error {
	if s.typ == Datagram {
		return &Error{Op: op, Object: "of a datagram socket", Errno: syscall.ENOTSUP}
	}
	return nil
}
