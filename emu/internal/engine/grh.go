//go:build linux

package engine

import (
	"encoding/binary"
	"net/netip"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// grhSize is how many bytes of a receive are in front of a datagram.
const grhSize = 40

// roceUDP is set in the type of a packet that completions of RoCE have in place of the service level: it has a UDP
// header.
const roceUDP = 1 << 3

// header builds these bytes in b.tiny: a GRH, an IPv6 header, or 20 bytes of nothing and an IPv4 header. It returns
// the kind of header as completions of RoCE show it: 0, 1, 2.
func (dg *datagrams) header(from *hca.Port, a *addressVector, n uint64) uint32 {
	h := dg.b.tiny[:grhSize]
	clear(h)
	var src [16]byte
	kind := uint32(0)
	if g := from.GID(int(a.sgid)); g != nil {
		src = g.GID
		if g.Type == config.GIDTypeRoCEv2 {
			kind = 1
			if netip.AddrFrom16(src).Is4In6() && netip.AddrFrom16(a.gid).Is4In6() {
				kind = 2
			}
		}
	}
	const ibHeaders = 12 + 8 + 4 // BTH, DETH, ICRC
	hop := max(a.hop, 1)
	if kind == 2 {
		h = h[20:]
		h[0], h[1], h[8], h[9] = 0x45, a.tclass, hop, 17
		binary.BigEndian.PutUint16(h[2:], uint16(20+8+ibHeaders+n))
		h[6] = 0x40 // do not fragment
		copy(h[12:], src[12:])
		copy(h[16:], a.gid[12:])
		binary.BigEndian.PutUint16(h[10:], ^uint16(sum(0, h)))
		return kind
	}
	put32(h, 6<<28|uint32(a.tclass)<<20|a.flow)
	h[6], h[7] = 0x1b, hop
	length := ibHeaders + n
	if kind == 1 {
		h[6] = 17
		length += 8
	}
	binary.BigEndian.PutUint16(h[4:], uint16(length))
	copy(h[8:], src[:])
	copy(h[24:], a.gid[:])
	return kind
}
