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
	// The responder accepts packets from where it is connected to, by the same encapsulation.
	if back := rt.destination(&p.Attr.AH); back != from {
		return nil
	}
	if qp.Attr.AH.Global && p.Attr.AH.Global {
		a, b := from.GID(int(qp.Attr.AH.SGIDIndex)), to.GID(int(p.Attr.AH.SGIDIndex))
		if a == nil || b == nil || a.Type != b.Type || a.VLAN != b.VLAN {
			return nil
		}
	}
	if !samePKey(from.PKey(int(qp.Attr.PKeyIndex)), to.PKey(int(p.Attr.PKeyIndex))) {
		return nil
	}
	return p
}

// samePKey reports whether two P_Keys are of one partition, and one of them is a full member.
func samePKey(a, b uint16) bool { return a&0x7fff == b&0x7fff && (a|b)&0x8000 != 0 }

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
