// Package netlink asks the kernel by netlink, and takes its answers apart.
package netlink

import (
	"encoding/binary"
	"errors"
	"syscall"
)

// Ask sends a message and calls do with type and body of each answer: one, or all with FlagDump. do may be called
// before an error.
type Ask func(typ, flags uint16, body []byte, do func(typ uint16, body []byte) error) error

// FlagDump asks for all of a kind.
const FlagDump = 0x300

// What every message has.
const (
	headerSize = 16
	attrHeader = 4

	flagRequest = 1

	typeError = 2
	typeDone  = 3
)

var errShort = errors.New("a message of netlink is not whole")

// request is a message with a body.
func request(typ, flags uint16, seq uint32, body []byte) []byte {
	e := binary.NativeEndian
	b := e.AppendUint32(nil, uint32(headerSize+len(body)))
	b = e.AppendUint16(b, typ)
	b = e.AppendUint16(b, flagRequest|flags)
	b = e.AppendUint32(b, seq)
	return append(e.AppendUint32(b, 0), body...) // from the kernel's choice of a port
}

// Attr is an attribute, with the zeros behind it.
func Attr(typ uint16, value []byte) []byte {
	b := make([]byte, attrHeader, (attrHeader+len(value)+3)&^3)
	binary.NativeEndian.PutUint16(b, uint16(attrHeader+len(value)))
	binary.NativeEndian.PutUint16(b[2:], typ)
	return append(b, value...)[:cap(b)]
}

// Attrs returns the values of the attributes in b, by type.
func Attrs(b []byte) (map[uint16][]byte, error) {
	m := make(map[uint16][]byte)
	for len(b) >= attrHeader {
		n := int(binary.NativeEndian.Uint16(b))
		if n < attrHeader || n > len(b) {
			return nil, errShort
		}
		const flags = 3 << 14 // nested, byte order
		m[binary.NativeEndian.Uint16(b[2:])&^flags] = b[attrHeader:n]
		b = b[min((n+3)&^3, len(b)):]
	}
	return m, nil
}

// message takes a message off b.
func message(b []byte) (typ uint16, seq uint32, body, rest []byte, err error) {
	if len(b) < headerSize {
		return 0, 0, nil, nil, errShort
	}
	n := binary.NativeEndian.Uint32(b)
	if n < headerSize || uint64(n) > uint64(len(b)) {
		return 0, 0, nil, nil, errShort
	}
	e := binary.NativeEndian
	return e.Uint16(b[4:]), e.Uint32(b[8:]), b[headerSize:n], b[min(int(n+3)&^3, len(b)):], nil
}

// answers reads answers to the message seq: many until the last, else one.
func answers(seq uint32, many bool, read func() ([]byte, error), do func(uint16, []byte) error) error {
	for {
		b, err := read()
		if err != nil {
			return err
		}
		for len(b) > 0 {
			typ, to, body, rest, err := message(b)
			if err != nil {
				return err
			}
			b = rest
			switch {
			case to != seq:
			case typ == typeDone:
				return nil
			case typ == typeError:
				if len(body) < 4 {
					return errShort
				}
				if e := int32(binary.NativeEndian.Uint32(body)); e != 0 {
					return syscall.Errno(-e)
				}
				return nil
			default:
				if err := do(typ, body); err != nil || !many {
					return err
				}
			}
		}
	}
}
