//go:build linux

package engine

import (
	"encoding/binary"
	"net/netip"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// routes finds where requests go.
type routes struct {
	f     *hca.Fabric
	epoch uint64 // counts changes of QPs and ports, for cached peers
}

// changed voids what is known of the peers of all QPs.
func (rt *routes) changed() { rt.epoch++ }

// peer returns the QP that a connected QP is connected to, or nil if nothing answers there.
func (rt *routes) peer(qp *hca.QP) *hca.QP {
	r := &qp.Run
	if r.Epoch != rt.epoch {
		r.Peer, r.Epoch = rt.route(qp), rt.epoch
	}
	return r.Peer
}

func (rt *routes) route(qp *hca.QP) *hca.QP {
	from, to := qp.Port(), rt.destination(&qp.Attr.AH)
	if from == nil || to == nil || !from.Active || !to.Active || to.Device.Gone ||
		!from.Reaches(to, qp.Attr.AH.Global) {
		return nil
	}
	p := to.Device.QP(qp.Attr.DestQPN)
	if p == nil || p.Run.Dead || p.Context.Dead || p.State < hca.RTR || p.State == hca.Err {
		return nil
	}
	if p.Type != transportOf(qp.Type).responder || p.Attr.DestQPN != qp.Num || int(p.Attr.Port) != to.Number {
		return nil
	}
	// The responder accepts packets from where it is connected to.
	if back := rt.destination(&p.Attr.AH); back != from {
		return nil
	}
	if qp.Attr.AH.Global && p.Attr.AH.Global && !sameWire(from, p, qp.Attr.AH.SGIDIndex) || !samePartition(qp, p) {
		return nil
	}
	return p
}

// addressVector is what a WQE of UD or of a DCI says of its destination.
type addressVector struct {
	qkey, qpn  uint32
	lid        uint16
	sl, tclass uint8
	hop        uint8
	grh        bool
	sgid       uint8
	flow       uint32
	gid        [16]byte
}

// addressOf reads where a request goes from a port. It completes an IPv4 address: an adapter puts only its last four
// bytes on the wire, so that a library may leave the prefix out, as MLNX_OFED 4 does.
func addressOf(b []byte, from *hca.Port) addressVector {
	g := binary.BigEndian.Uint32(b[28:])
	a := addressVector{
		qkey: binary.BigEndian.Uint32(b),
		qpn:  binary.BigEndian.Uint32(b[8:]) & 0xffffff,
		sl:   b[12] & 15,
		lid:  binary.BigEndian.Uint16(b[14:]),

		tclass: b[26],
		hop:    b[27],
		grh:    g>>30&1 != 0 || from.Config.LinkLayer == config.Ethernet,
		sgid:   uint8(g >> 20),
		flow:   g & 0xfffff,
		gid:    [16]byte(b[32:48]),
	}
	own := from.GID(int(a.sgid))
	v4 := own != nil && own.Type == config.GIDTypeRoCEv2 && netip.AddrFrom16(own.GID).Is4In6()
	if v4 && [12]byte(a.gid[:12]) == [12]byte{} {
		a.gid[10], a.gid[11] = 0xff, 0xff
	}
	return a
}

// named returns the QP that an address names, or nil if packets from a port do not get there.
func (rt *routes) named(from *hca.Port, a *addressVector) *hca.QP {
	to := rt.destination(&hca.AHAttr{DLID: a.lid, DGID: a.gid, Global: a.grh})
	if to == nil || to.Device.Gone || !linked(from, to) || !from.Reaches(to, a.grh) {
		return nil
	}
	p := to.Device.QP(a.qpn)
	if p == nil || p.Run.Dead || int(p.Attr.Port) != to.Number {
		return nil
	}
	return p
}

// linked reports whether two ports are up and of one link layer.
func linked(from, to *hca.Port) bool {
	return from.Active && to.Active && from.Config.LinkLayer == to.Config.LinkLayer
}

// sameWire reports whether p answers from its own GID by the encapsulation of entry sgid of a port's table.
func sameWire(from *hca.Port, p *hca.QP, sgid uint8) bool {
	a, b := from.GID(int(sgid)), p.Port().GID(int(p.Attr.AH.SGIDIndex))
	return a != nil && b != nil && a.Type == b.Type && a.VLAN == b.VLAN
}

// samePartition reports whether the P_Keys of two QPs, which have ports, are of one partition, and one of them a full
// member.
func samePartition(p, o *hca.QP) bool {
	a, b := p.Port().PKey(int(p.Attr.PKeyIndex)), o.Port().PKey(int(o.Attr.PKeyIndex))
	return a&0x7fff == b&0x7fff && (a|b)&0x8000 != 0
}

// destination returns the port that an address leads to: by LID if it has one, else by GID.
func (rt *routes) destination(a *hca.AHAttr) *hca.Port {
	if a.DLID != 0 {
		if p := rt.f.PortByLID(a.DLID); p != nil {
			return p
		}
	}
	if !a.Global {
		return nil
	}
	return rt.f.PortByGID(&a.DGID)
}
