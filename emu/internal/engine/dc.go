//go:build linux

package engine

import (
	"encoding/binary"
	"slices"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// target finds the DCT that a work request of a DCI names. It returns nil if nothing answers there: a request with a
// wrong key is dropped like one of a wrong P_Key, so that the requester tries again and gives up.
func (rt *routes) target(qp *hca.QP, w *wqe) *hca.QP {
	from := qp.Port()
	if from == nil {
		return nil
	}
	a := parseAV(w.av)
	a.grh = a.grh || from.Config.LinkLayer == config.Ethernet
	a.fillPrefix(from)
	to := rt.destination(&hca.AHAttr{DLID: a.lid, DGID: a.gid, Global: a.grh})
	if to == nil || to.Device.Gone || !linked(from, to) || !from.Reaches(to, a.grh) {
		return nil
	}
	p := to.Device.QP(a.qpn)
	if p == nil || p.Type != hca.DCT || p.Run.Dead || p.Context.Dead || p.State != hca.RTR ||
		int(p.Attr.Port) != to.Number {
		return nil
	}
	if a.grh && p.Attr.AH.Global { // it answers from its own GID, by the same encapsulation
		g, h := from.GID(int(a.sgid)), to.GID(int(p.Attr.AH.SGIDIndex))
		if g == nil || h == nil || g.Type != h.Type || g.VLAN != h.VLAN {
			return nil
		}
	}
	if !samePKey(from.PKey(int(qp.Attr.PKeyIndex)), to.PKey(int(p.Attr.PKeyIndex))) {
		return nil
	}
	if binary.BigEndian.Uint64(w.av) != p.DC.AccessKey {
		return nil
	}
	return p
}

// streamFailed notes that a stream of a DCI is in error, after which all its work requests are flushed while others go
// on. It reports whether the QP survives: as many such streams as it was made for, or a malformed WQE, break it.
func streamFailed(qp *hca.QP, w *wqe, syndrome uint8) bool {
	r := &qp.Run
	if syndrome == synLocalQPOp {
		return false
	}
	if !slices.Contains(r.BadStreams, w.stream) {
		r.BadStreams = append(r.BadStreams, w.stream)
	}
	return len(r.BadStreams) < 1<<qp.DC.ErroredStreams
}

// StreamReset lets a stream of a DCI go on after an error.
func (e *Engine) StreamReset(qp *hca.QP, stream uint16) {
	qp.Run.BadStreams = slices.DeleteFunc(qp.Run.BadStreams, func(s uint16) bool { return s == stream })
}
