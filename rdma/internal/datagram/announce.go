package datagram

import (
	"encoding/binary"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
)

// statedPort is the upper half of the immediate of a socket's datagrams. The lower half is the port of the socket.
const statedPort = 0x5056 << 16

// State returns the immediate of datagrams of a port.
func State(port uint16) uint32 { return statedPort | uint32(port) }

// Stated returns the port that a datagram states, or 0.
func Stated(wc *ibv.WC) uint16 {
	if wc.Flags&ibv.WCWithImm == 0 || wc.Imm&^0xffff != statedPort {
		return 0
	}
	return uint16(wc.Imm)
}

// An announcement is the private data of a request for a peer's queue pair. It states the requester's queue pair and
// port, so that the peer asks for them: it proves nothing.
const (
	AnnounceMagic = "PVRD"
	AnnounceLen   = 16
)

// Announce returns an announcement.
func Announce(qpn uint32, port uint16) []byte {
	b := make([]byte, AnnounceLen)
	copy(b, AnnounceMagic)
	binary.LittleEndian.PutUint32(b[4:], qpn)
	binary.LittleEndian.PutUint16(b[8:], port)
	return b
}

// Announced is the claim of a peer that a queue pair has an address.
type Announced struct {
	AP  netip.AddrPort
	QPN uint32
}

// Announced returns the announcement in a request from host, and reports whether it has one.
func (p *Port) Announced(host netip.Addr, b []byte) (a Announced, ok bool) {
	if len(b) < AnnounceLen || string(b[:4]) != AnnounceMagic || !host.IsValid() {
		return a, false
	}
	port := binary.LittleEndian.Uint16(b[8:])
	return Announced{netip.AddrPortFrom(p.Host(host), port), binary.LittleEndian.Uint32(b[4:])}, port != 0
}
