package wire

import (
	"encoding/binary"
	"fmt"
)

// A frame is one SEND: a header, and a payload that is at most one block of the receiver.
const HeaderLen = 16

// MaxWindow is the most data frames that a peer may be ahead of the application. No limit is further from the frames
// that were sent.
const MaxWindow = 64

// Kind is the kind of a frame.
type Kind uint8

const (
	Data  Kind = iota // the only kind that takes a credit
	Limit             // carries the limit of its header
	FIN               // the last frame; aux is FINClosed if its sender also reads no more
	Reset             // the connection is broken; aux is the reason
	Ping              // needs no reply; aux is FINClosed if its sender reads no more

	// About leases, and known only on connections with leases.
	Lend    // aux is the number of the lease in all frames about it, from 0 on
	Extend  // by the owner
	Revoke  // the holder is to return it
	Return  // the holder no longer uses it
	Request // for a lease; aux is the number of the request
	Refuse  // the reply, if it is not a LEND

	kinds // how many there are
)

var kindNames = [kinds]string{"DATA", "LIMIT", "FIN", "RESET", "PING", "LEND", "EXTEND", "REVOKE", "RETURN", "REQUEST",
	"REFUSE"}

func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("frame kind %d", uint8(k))
}

// Known reports whether a connection knows the kind. Those about leases need leases.
func (k Kind) Known(leases bool) bool { return k < Lend || k < kinds && leases }

// Flags of a frame.
const (
	FlagMore    = 1 << iota // the message continues in the next data frame
	FlagImm                 // aux is the immediate; only in the last frame of a message
	FlagIgnore              // a receiver that does not know the kind ignores the frame
	FlagCancel              // the message ends here and is to be dropped
	FlagLower               // of LIMIT: the limit may be lower than before, and needs a reply
	FlagLowered             // of LIMIT: that reply
	FlagPacked              // several messages, each in a record

	knownFlags = FlagMore | FlagImm | FlagIgnore | FlagCancel | FlagLower | FlagLowered | FlagPacked
)

// FINClosed is aux of a FIN whose sender also reads no more. A PING says it before the FIN, which waits for credits.
const FINClosed = 1

// Reasons of a RESET, in its aux.
const (
	ResetProtocol = 1 // the peer broke the protocol
	ResetMemory   = 2 // a message was not complete in time, and its receiver lacks memory
	ResetClosed   = 3 // the sender's program has closed the connection without waiting
)

// Header is the header of a frame.
type Header struct {
	Kind   Kind
	Flags  uint8
	Seq    uint16 // low bits of the number of this data frame; in other frames, of the next one
	Limit  uint32 // data frames with a lower number may be sent to the sender of this frame
	Length uint32 // bytes of the payload
	Aux    uint32 // its meaning depends on kind and flags
}

// Put writes the header to the first HeaderLen bytes of b.
func (h *Header) Put(b []byte) {
	_ = b[HeaderLen-1]
	b[0], b[1] = byte(h.Kind), h.Flags
	binary.LittleEndian.PutUint16(b[2:], h.Seq)
	binary.LittleEndian.PutUint32(b[4:], h.Limit)
	binary.LittleEndian.PutUint32(b[8:], h.Length)
	binary.LittleEndian.PutUint32(b[12:], h.Aux)
}

// ParseHeader reads the first HeaderLen bytes of b. Check checks them.
func ParseHeader(b []byte) Header {
	_ = b[HeaderLen-1]
	return Header{
		Kind: Kind(b[0]), Flags: b[1], Seq: binary.LittleEndian.Uint16(b[2:]),
		Limit: binary.LittleEndian.Uint32(b[4:]), Length: binary.LittleEndian.Uint32(b[8:]),
		Aux: binary.LittleEndian.Uint32(b[12:]),
	}
}

// Before reports whether number a comes before b. Numbers wrap around.
func Before(a, b uint32) bool { return int32(a-b) < 0 }
