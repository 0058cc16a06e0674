package wire

import "encoding/binary"

// Frames about leases take no credit of data frames, so a peer whose messages are not read can still be asked to stop.
// They have their own credits, which LIMIT frames carry in aux.
const (
	ControlWindow = 4  // most frames about leases that may be ahead of their receiver
	ControlMost   = 28 // bytes of their longest payload
)

// Reasons of the end of a lease, in REVOKE and RETURN.
const (
	EndedByHolder = iota
	EndedRevoked
	EndedExpired
)

// payloadLen is how long the payload of a frame about leases is.
func (k Kind) payloadLen() uint32 {
	switch k {
	case Lend:
		return ControlMost
	case Request:
		return 16
	}
	return 4
}

// Control is a frame about leases.
type Control struct {
	Kind Kind
	Aux  uint32
	n    uint8
	p    [ControlMost]byte
}

// Payload returns the payload, which is part of c.
func (c *Control) Payload() []byte { return c.p[:c.n] }

// newControl returns a frame whose payload begins with the fields of payload.
func newControl(kind Kind, aux uint32, payload any) Control {
	c := Control{Kind: kind, Aux: aux, n: uint8(kind.payloadLen())}
	_, _ = binary.Encode(c.p[:], binary.LittleEndian, payload) // it fits
	return c
}

// NumberFrame returns an EXTEND, REVOKE, RETURN or REFUSE. The payload is one number.
func NumberFrame(kind Kind, aux, number uint32) Control {
	c := Control{Kind: kind, Aux: aux, n: uint8(kind.payloadLen())}
	binary.LittleEndian.PutUint32(c.p[:], number)
	return c
}

// ParseNumber reads the payload of such a frame.
func ParseNumber(p []byte) uint32 { return binary.LittleEndian.Uint32(p) }

// LendFrame is the payload of LEND.
type LendFrame struct {
	Addr, Length uint64
	RKey         uint32
	Milliseconds uint32 // until it ends
	Access       uint8  // 1 read, 2 write, 4 atomics
	Flags        uint8  // 0
	Request      uint16 // that it grants, or 0
}

// Encode returns the LEND of the lease with a number.
func (f *LendFrame) Encode(number uint32) Control { return newControl(Lend, number, f) }

// ParseLend reads the payload of a LEND.
func ParseLend(p []byte) (f LendFrame) {
	_, _ = binary.Decode(p, binary.LittleEndian, &f) // Check has checked the length, here and for a REQUEST
	return f
}

// RequestFrame is the payload of REQUEST. Its last 3 bytes are 0, and a receiver ignores them.
type RequestFrame struct {
	Bytes        uint64
	Milliseconds uint32 // 0: the longest that the owner allows
	Access       uint8  // as in LendFrame
}

// Encode returns the REQUEST with a number.
func (f *RequestFrame) Encode(number uint16) Control { return newControl(Request, uint32(number), f) }

// ParseRequest reads the payload of a REQUEST.
func ParseRequest(p []byte) (f RequestFrame) {
	_, _ = binary.Decode(p, binary.LittleEndian, &f)
	return f
}
