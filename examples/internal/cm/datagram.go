package cm

import (
	"encoding/binary"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// GRHSize is the size of the header in front of each datagram that is received: a
// GRH, or with RoCE v2 over IPv4 an IPv4 header in its last 20 bytes.
const GRHSize = 40

// FitsMTU checks that a datagram fits in one packet.
func FitsMTU(dev *ibv.Device, port uint8, size int) error {
	p, err := dev.QueryPort(port)
	if err != nil {
		return err
	}
	if mtu := p.ActiveMTU.Bytes(); size > mtu {
		return fmt.Errorf("-S %d: a datagram fits in one packet, and the MTU of the port is %d", size, mtu)
	}
	return nil
}

// HeaderError reports a datagram's header that does not contain the sender's address.
type HeaderError struct{ Got string }

func (e *HeaderError) Error() string { return "datagram: " + e.Got }

// ReplyTo returns the address of the sender of a datagram, from its completion and the header in
// front of it. C: ibv_init_ah_from_wc(3).
func ReplyTo(dev *ibv.Device, port uint8, wc *ibv.WC, header []byte) (*ibv.AHAttr, error) {
	attr := &ibv.AHAttr{Port: port, DLID: wc.SLID, SL: wc.SL, SrcPathBits: wc.DLIDPathBits}
	if wc.Flags&ibv.WCGRH == 0 {
		return attr, nil // a LID is enough
	}
	from, to, typ, err := addresses(header)
	if err != nil {
		return nil, err
	}
	table, err := dev.GIDTable()
	if err != nil {
		return nil, err
	}
	for _, g := range table {
		if g.Port == port && g.GID == to && (g.Type == typ || typ != ibv.GIDTypeRoCEv2 && g.Type != ibv.GIDTypeRoCEv2) {
			attr.Global, attr.DGID, attr.SGIDIndex, attr.HopLimit = true, from, uint8(g.Index), 0xff
			return attr, nil
		}
	}
	return nil, &HeaderError{Got: fmt.Sprintf("it was sent to %v, which is no GID of port %d", to, port)}
}

// addresses reads the GIDs of both sides.
func addresses(header []byte) (from, to ibv.GID, typ ibv.GIDType, err error) {
	if len(header) < GRHSize {
		return from, to, typ, &HeaderError{Got: fmt.Sprintf("a header of %d bytes, want %d", len(header), GRHSize)}
	}
	// The bytes in front of an IPv4 header are undefined and may look like a GRH: then the checksum
	// decides. It may be missing on packets that were never on a wire.
	grh := header[0]>>4 == 6
	if ip := header[20:GRHSize]; ip[0] == 0x45 && (!grh || sum(ip) == 0xffff) {
		copy(from[10:], "\xff\xff")
		copy(to[10:], "\xff\xff")
		copy(from[12:], ip[12:16])
		copy(to[12:], ip[16:20])
		return from, to, ibv.GIDTypeRoCEv2, nil
	}
	if !grh {
		return from, to, typ, &HeaderError{Got: fmt.Sprintf("a header that is neither IPv4's nor a GRH: % x",
			header[:GRHSize])}
	}
	copy(from[:], header[8:24])
	copy(to[:], header[24:40])
	const udp = 17 // a GRH has 27 there
	if typ = ibv.GIDTypeIB; header[6] == udp {
		typ = ibv.GIDTypeRoCEv2
	}
	return from, to, typ, nil
}

// sum returns the ones' complement sum of an IPv4 header, 0xffff for a valid one.
func sum(b []byte) uint16 {
	var s uint32
	for i := 0; i < len(b); i += 2 {
		s += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
