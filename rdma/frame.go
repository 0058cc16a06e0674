package rdma

import (
	"encoding/binary"
	"fmt"
)

// A frame is one SEND: a header, and at most a block of payload. docs/rdma-protocol.md has the format.
const (
	headerLen = 16
	headroom  = 64 // bytes of a block before its payload, so that the payload is aligned; the header is their end
	headerAt  = headroom - headerLen
)

// frameKind is the kind of a frame.
type frameKind uint8

const (
	kindData frameKind = iota // takes a credit, like no other
	kindLimit
	kindFIN   // the last frame; aux is finClosed if its sender reads no more either
	kindReset // the connection is broken; aux is the reason
	kindPing

	// About leases; only on connections with leases.
	kindLend    // aux is the number of the lease in the frames about it, from 0 on
	kindExtend  // by its owner
	kindRevoke  // its holder is to return it
	kindReturn  // its holder does not use it any more
	kindRequest // for a lease; aux is the number of the request
	kindRefuse  // the reply, if it is not a LEND
	kindCount
)

var kindNames = [kindCount]string{"DATA", "LIMIT", "FIN", "RESET", "PING", "LEND", "EXTEND", "REVOKE", "RETURN",
	"REQUEST", "REFUSE"}

func (k frameKind) String() string {
	if k < kindCount {
		return kindNames[k]
	}
	return fmt.Sprintf("frame kind %d", uint8(k))
}

// Flags of a frame.
const (
	flagMore    = 1 << iota // the message goes on in the next data frame
	flagImm                 // aux is the immediate; only in the last frame of a message
	flagIgnore              // a receiver that does not know the kind ignores the frame
	flagCancel              // the message ends here and is to be dropped
	flagLower               // of LIMIT: the limit may be lower than before, and needs a reply
	flagLowered             // of LIMIT: that reply
	flagPacked              // several messages, each in a record

	knownFlags = flagMore | flagImm | flagIgnore | flagCancel | flagLower | flagLowered | flagPacked
)

const finClosed = 1

// header is the header of a frame. All numbers are little endian.
type header struct {
	kind   frameKind
	flags  uint8
	seq    uint16 // low bits of the number of this data frame; in other frames, of the next one
	limit  uint32 // data frames with a number below it may be sent to the sender of this frame
	length uint32 // of the payload
	aux    uint32
}

func (h *header) put(b []byte) {
	_ = b[headerLen-1]
	b[0], b[1] = byte(h.kind), h.flags
	binary.LittleEndian.PutUint16(b[2:], h.seq)
	binary.LittleEndian.PutUint32(b[4:], h.limit)
	binary.LittleEndian.PutUint32(b[8:], h.length)
	binary.LittleEndian.PutUint32(b[12:], h.aux)
}

func parseHeader(b []byte) header {
	_ = b[headerLen-1]
	return header{
		kind: frameKind(b[0]), flags: b[1], seq: binary.LittleEndian.Uint16(b[2:]),
		limit: binary.LittleEndian.Uint32(b[4:]), length: binary.LittleEndian.Uint32(b[8:]),
		aux: binary.LittleEndian.Uint32(b[12:]),
	}
}

// before reports whether number a comes before b. Numbers wrap around.
func before(a, b uint32) bool { return int32(a-b) < 0 }
