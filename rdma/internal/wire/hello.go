package wire

import (
	"encoding/binary"
	"fmt"
)

// Versions of the protocol that this module speaks.
const (
	MinVersion = 1
	MaxVersion = 1
)

const magic = "PVR1"

const (
	HelloLen   = 40            // bytes of private data that a hello takes, without a probe
	AppDataLen = HelloLen - 24 // of them the program's own
	probeLen   = 12

	MinBlock = 1 << 10 // smallest and largest payload of a frame that a peer may accept
	MaxBlock = 1 << 20
	MinLimit = 2 // a connection whose first limit is lower may deadlock
)

// ConnKind distinguishes connections whose frames are messages from those whose frames are pieces of a stream.
type ConnKind uint8

const (
	Datagrams ConnKind = 0 // has no connection, so it is in no hello
	Messages  ConnKind = 1
	Stream    ConnKind = 2
)

func (k ConnKind) String() string {
	switch k {
	case Messages:
		return "messages"
	case Stream:
		return "a stream"
	}
	return fmt.Sprintf("connection kind %d", uint8(k))
}

// Flags of a hello.
const (
	HelloLeases = 1 << iota // the sender allows leases, if the other side does
	HelloPacks              // the sender accepts PACKED frames
	HelloProbe              // the hello has Probe
)

// Hello is the private data of a request and of its reply, behind the magic.
type Hello struct {
	Min, Max   uint8 // versions
	Kind       ConnKind
	Flags      uint8
	Block      uint32 // largest payload of a frame that its sender accepts
	Limit      uint32 // data frames with a lower number may be sent to its sender
	MaxMessage uint32 // longest message that its sender accepts, in bytes
	_          uint32 // 0, and a receiver ignores it
	App        [AppDataLen]byte
	Probe      Probe // with HelloProbe
}

// Probe is a byte of memory of the sender, which the other side reads to learn that the sender's adapter has what was
// sent before.
type Probe struct {
	Addr uint64
	Key  uint32
}

// Encode returns the private data.
func (h *Hello) Encode() []byte {
	b, _ := binary.Append([]byte(magic), binary.LittleEndian, h) // its size is fixed
	if h.Flags&HelloProbe == 0 {
		b = b[:HelloLen]
	}
	return b
}

// ParseHello reads the peer's hello, and checks it against the kind of connection that this side wants. The error is an
// *Error or a *VersionError, and reason is for the refusal.
func ParseHello(b []byte, want ConnKind) (h Hello, reason RejectReason, err error) {
	bad := func(reason RejectReason, frame, got, wanted string) (Hello, RejectReason, error) {
		return Hello{}, reason, &Error{Frame: frame, Got: got, Want: wanted}
	}
	if len(b) < HelloLen || string(b[:4]) != magic {
		return bad(RejectOther, "private data", fmt.Sprintf("%.4q", b), fmt.Sprintf("%q: a peer with this package",
			magic))
	}
	var all [HelloLen + probeLen]byte
	copy(all[:], b)
	_, _ = binary.Decode(all[len(magic):], binary.LittleEndian, &h) // all has its size
	if h.Flags&HelloProbe == 0 {
		h.Probe = Probe{}
	}
	switch {
	case h.Min > MaxVersion || h.Max < MinVersion:
		return Hello{}, RejectVersion, &VersionError{PeerMin: h.Min, PeerMax: h.Max}
	case h.Kind != want:
		return bad(RejectKind, "private data", h.Kind.String(), want.String())
	case h.Block < MinBlock || h.Block > MaxBlock:
		return bad(RejectOther, "block size", fmt.Sprint(h.Block), fmt.Sprintf("%d to %d", MinBlock, MaxBlock))
	case h.Flags&HelloProbe != 0 && len(b) < HelloLen+probeLen:
		return bad(RejectOther, "private data", fmt.Sprintf("%d bytes", len(b)), fmt.Sprintf("%d with a probe",
			HelloLen+probeLen))
	case h.Limit < MinLimit || h.Limit > MaxWindow:
		return bad(RejectOther, "first limit", fmt.Sprint(h.Limit), fmt.Sprintf("%d to %d", MinLimit, MaxWindow))
	}
	return h, RejectOther, nil
}

// RejectLen is how many bytes of private data a refusal takes at least. A receiver ignores what follows.
const RejectLen = 7

// RejectReason is why a side refused a connection. Package rdma describes the reasons that its users see.
type RejectReason uint8

const (
	RejectOther   RejectReason = iota // see the errors of the connection manager
	RejectVersion                     // no common version
	RejectKind                        // messages for a listener of streams, or the reverse
	RejectMaxConns
	RejectQueuePairs
	RejectMemory
	RejectBusy
	RejectAuthorize
	RejectLate
	RejectClosed
	RejectUnfinished // in no private data: it came after the reply, when Linux sends none
)

// Rejection is the private data of a refusal.
type Rejection struct {
	Min, Max uint8 // versions of the side that refuses
	Reason   RejectReason
}

// Encode returns the private data.
func (r Rejection) Encode() []byte { return append([]byte(magic), r.Min, r.Max, byte(r.Reason)) }

// ParseRejection reads the private data of a refusal, and reports whether this protocol's peer wrote it.
func ParseRejection(b []byte) (r Rejection, ok bool) {
	if len(b) < RejectLen || string(b[:4]) != magic {
		return Rejection{}, false
	}
	return Rejection{Min: b[4], Max: b[5], Reason: RejectReason(b[6])}, true
}
