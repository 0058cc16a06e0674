//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

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

// sameWire reports whether p answers from its own GID by the encapsulation of entry sgid of a port's table.
func sameWire(from *hca.Port, p *hca.QP, sgid uint8) bool {
	a, b := from.GID(int(sgid)), p.Port().GID(int(p.Attr.AH.SGIDIndex))
	return a != nil && b != nil && a.Type == b.Type && a.VLAN == b.VLAN
}

// samePartition reports whether the P_Keys of two QPs, which have ports, are of one partition, and one of them is a full
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
