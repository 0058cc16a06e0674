package rdma

import (
	"encoding/binary"
	"fmt"
)

// Versions of the protocol that this package speaks.
const (
	minVersion = 1
	maxVersion = 1
)

const (
	helloMagic  = "PVR1"
	helloLen    = 40
	appDataLen  = helloLen - 24
	rejectLen   = 7
	maxBlock    = 1 << 20
	minBlock    = 1 << 10
	minLimit    = 2 // a connection with less may deadlock
	reasonOther = 0
)

// Reasons in the private data of a reject.
const (
	rejectVersion = 1 + iota
	rejectKind
)

// connKind distinguishes frames that are messages from those that are pieces of a stream.
type connKind uint8

const (
	kindMessages connKind = 1
	kindStream   connKind = 2
	// kindDatagrams has no connection.
	kindDatagrams connKind = 0
)

func (k connKind) String() string {
	switch k {
	case kindMessages:
		return "messages"
	case kindStream:
		return "a stream"
	}
	return fmt.Sprintf("connection kind %d", uint8(k))
}

// Flags of a hello.
const (
	helloLeases = 1 << iota // its sender allows leases, if the other side does
	helloPacks              // its sender takes frames of several messages
)

// hello is the private data of a request and of its reply.
type hello struct {
	min, max   uint8
	kind       connKind
	flags      uint8
	block      uint32 // most payload of a frame that its sender takes
	limit      uint32 // data frames with a number below it may be sent to its sender
	maxMessage uint32
	app        [appDataLen]byte
}

func (h *hello) encode() []byte {
	b := make([]byte, helloLen)
	copy(b, helloMagic)
	b[4], b[5], b[6], b[7] = h.min, h.max, byte(h.kind), h.flags
	binary.LittleEndian.PutUint32(b[8:], h.block)
	binary.LittleEndian.PutUint32(b[12:], h.limit)
	binary.LittleEndian.PutUint32(b[16:], h.maxMessage)
	copy(b[24:], h.app[:])
	return b
}

// parseHello checks the peer's hello against what this side wants.
func parseHello(b []byte, want connKind) (h hello, reason byte, err error) {
	bad := func(reason byte, frame, got, wanted string) (hello, byte, error) {
		return hello{}, reason, &ProtocolError{Frame: frame, Got: got, Want: wanted}
	}
	if len(b) < helloLen || string(b[:4]) != helloMagic {
		return bad(reasonOther, "private data", fmt.Sprintf("%.4q", b), fmt.Sprintf("%q: a peer with this package",
			helloMagic))
	}
	h.min, h.max, h.kind, h.flags = b[4], b[5], connKind(b[6]), b[7]
	h.block, h.limit = binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	h.maxMessage = binary.LittleEndian.Uint32(b[16:])
	copy(h.app[:], b[24:helloLen])
	if h.min > maxVersion || h.max < minVersion {
		return hello{}, rejectVersion, &VersionError{PeerMin: h.min, PeerMax: h.max}
	}
	if h.kind != want {
		return bad(rejectKind, "private data", h.kind.String(), want.String())
	}
	if h.block < minBlock || h.block > maxBlock {
		return bad(reasonOther, "block size", fmt.Sprint(h.block), fmt.Sprintf("%d to %d", minBlock, maxBlock))
	}
	if h.limit < minLimit || h.limit > maxWindow {
		return bad(reasonOther, "first limit", fmt.Sprint(h.limit), fmt.Sprintf("%d to %d", minLimit, maxWindow))
	}
	return h, 0, nil
}

// rejectData is the private data of a refusal.
func rejectData(reason byte) []byte {
	return append([]byte(helloMagic), minVersion, maxVersion, reason)
}

// explainReject returns why the peer refused, if it did so with rejectData.
func explainReject(data []byte, kind connKind) error {
	if len(data) < rejectLen || string(data[:4]) != helloMagic {
		return nil
	}
	switch data[6] {
	case rejectVersion:
		return &VersionError{PeerMin: data[4], PeerMax: data[5]}
	case rejectKind:
		return &ProtocolError{Frame: "private data", Got: kind.String(), Want: "what the peer listens for: Dial goes " +
			"with Listen, DialStream with ListenStream"}
	}
	return nil
}
