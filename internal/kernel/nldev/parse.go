package nldev

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// Device has netlink's facts of a device.
type Device struct {
	Index  uint32
	Driver uint32 // C: enum rdma_driver_id; 0 (RDMA_DRIVER_UNKNOWN) if the kernel does not say
	GUID   uint64 // of the node
	Type   uint8  // C: enum rdma_node_type; 0 if the kernel does not say
	File   File
}

// File is a device file of verbs. All is zero before Linux 5.1, which does not say.
type File struct {
	Name   string // as in "uverbs0"
	Number uint64 // C: dev_t
	ABI    uint64 // of the driver
}

// client is RDMA_NL_NLDEV, which leads a message's type.
const client = 5 << 10

// Commands. C: enum rdma_nldev_command.
const (
	cmdGet        = client | 1
	cmdSysGet     = client | 6
	cmdGetChardev = client | 15
)

// Attributes. C: enum rdma_nldev_attr.
const (
	attrIndex       = 1
	attrName        = 2
	attrNodeGUID    = 6
	attrNodeType    = 14
	attrChardevType = 69
	attrChardevName = 70
	attrChardevABI  = 71
	attrChardev     = 72
	attrDriver      = 73
	attrCopyOnFork  = 93
)

// What netlink has in every message.
const (
	headerSize = 16
	attrHeader = 4

	flagRequest = 1
	flagDump    = 0x300

	typeError = 2
	typeDone  = 3
)

var errShort = errors.New("nldev: a message of netlink is not whole")

// request is a message with attributes.
func request(typ, flags uint16, seq uint32, attrs ...[]byte) []byte {
	b := make([]byte, headerSize)
	for _, a := range attrs {
		b = append(b, a...)
	}
	e := binary.NativeEndian
	e.PutUint32(b, uint32(len(b)))
	e.PutUint16(b[4:], typ)
	e.PutUint16(b[6:], flagRequest|flags)
	e.PutUint32(b[8:], seq)
	return b
}

// attr is an attribute, with the zeros behind it.
func attr(typ uint16, value []byte) []byte {
	b := make([]byte, attrHeader, (attrHeader+len(value)+3)&^3)
	binary.NativeEndian.PutUint16(b, uint16(attrHeader+len(value)))
	binary.NativeEndian.PutUint16(b[2:], typ)
	return append(b, value...)[:cap(b)]
}

// message takes a message off b. body has its attributes.
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

// attrs returns the values of the attributes in b, by type.
func attrs(b []byte) (map[uint16][]byte, error) {
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

// number returns an attribute of 1 to 8 bytes. ok is false if there is none.
func number(b []byte) (n uint64, ok bool) {
	switch len(b) {
	case 1:
		return uint64(b[0]), true
	case 4:
		return uint64(binary.NativeEndian.Uint32(b)), true
	case 8:
		return binary.NativeEndian.Uint64(b), true
	}
	return 0, false
}

// text returns an attribute that is a string.
func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}
