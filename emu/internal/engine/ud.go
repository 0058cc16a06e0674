//go:build linux

package engine

import (
	"encoding/binary"
	"net/netip"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

const avSize = 48 // the segment that says where to

// addressVector is what a UD WQE says of its destination.
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

func parseAV(b []byte) (a addressVector) {
	g := binary.BigEndian.Uint32(b[28:])
	a = addressVector{
		qkey: binary.BigEndian.Uint32(b),
		qpn:  binary.BigEndian.Uint32(b[8:]) & 0xffffff,
		sl:   b[12] & 15,
		lid:  binary.BigEndian.Uint16(b[14:]),

		tclass: b[26],
		hop:    b[27],
		grh:    g>>30&1 != 0,
		sgid:   uint8(g >> 20),
		flow:   g & 0xfffff,
	}
	copy(a.gid[:], b[32:48])
	return a
}

// fillPrefix completes an IPv4 address. An adapter puts only its last four bytes on the wire, so that a library may
// leave the prefix out: MLNX_OFED 4 does.
func (a *addressVector) fillPrefix(from *hca.Port) {
	g := from.GID(int(a.sgid))
	v4 := g != nil && g.Type == config.GIDTypeRoCEv2 && netip.AddrFrom16(g.GID).Is4In6()
	if v4 && [12]byte(a.gid[:12]) == [12]byte{} {
		a.gid[10], a.gid[11] = 0xff, 0xff
	}
}

// datagram executes a WQE of UD. Nobody tells the sender whether it arrived.
func (e *Engine) datagram(qp *hca.QP, w *wqe) verdict {
	list, bad := e.localList(qp, w, e.src[:0], 0)
	e.src = list
	from := port(qp.Context.Device, int(qp.Attr.Port))
	switch {
	case bad != 0:
		return e.failed(qp, w, bad)
	case from == nil || w.n > uint64(mtuBytes(from)):
		return e.failed(qp, w, synLocalLength)
	}
	a := parseAV(w.av)
	if a.qkey>>31 != 0 {
		a.qkey = qp.Attr.QKey
	}
	a.grh = a.grh || from.Config.LinkLayer == config.Ethernet
	a.fillPrefix(from)
	var v verdict
	if a.grh && hca.Multicast(&a.gid) {
		v = e.multicast(qp, from, w, &a)
	} else {
		v = e.unicast(qp, from, w, &a)
	}
	if v != proceed {
		return v
	}
	e.finish(qp, w, w.n, 0)
	return executed
}

func (e *Engine) unicast(qp *hca.QP, from *hca.Port, w *wqe, a *addressVector) verdict {
	to := e.destination(&hca.AHAttr{DLID: a.lid, DGID: a.gid, Global: a.grh})
	if to == nil || to.Device.Gone || !linked(from, to) || !from.Reaches(to, a.grh) {
		return proceed
	}
	peer := to.Device.QP(a.qpn)
	if peer == nil || peer.Run.Dead || int(peer.Attr.Port) != to.Number {
		return proceed
	}
	return e.reach(qp, peer, from, to, w, a)
}

// multicast sends a datagram to each member of a group, in a batch of its own.
func (e *Engine) multicast(qp *hca.QP, from *hca.Port, w *wqe, a *addressVector) verdict {
	b := &e.b
	if b.wqes > 0 {
		return alone
	}
	e.groups = e.groups[:0]
	for _, d := range e.f.Devices {
		if !d.Gone {
			e.groups = append(e.groups, d.Group(a.gid)...)
		}
	}
	for _, peer := range e.groups {
		if peer.Run.Dead {
			continue
		}
		to := port(peer.Context.Device, int(peer.Attr.Port))
		if to == nil || !linked(from, to) {
			continue
		}
		e.reach(qp, peer, from, to, w, a)
		if side := e.commit(); side == badSource {
			e.badMemory(qp, side)
			return halt
		}
		b.peer, b.srq = nil, nil
	}
	return proceed
}

// linked reports whether two ports are up and of one link layer.
func linked(from, to *hca.Port) bool {
	return from.Active && to.Active && from.Config.LinkLayer == to.Config.LinkLayer
}

func mtuBytes(p *hca.Port) int { return 128 << p.Config.ActiveMTU }

// reach puts a datagram in a receive of peer, if peer accepts it.
func (e *Engine) reach(qp, peer *hca.QP, from, to *hca.Port, w *wqe, a *addressVector) verdict {
	b := &e.b
	if peer.Type != hca.UD || peer.State < hca.RTR || peer.State == hca.Err || peer.Context.Dead {
		return proceed
	}
	if peer.Attr.QKey != a.qkey || !samePKey(from.PKey(int(qp.Attr.PKeyIndex)), to.PKey(int(peer.Attr.PKeyIndex))) {
		return proceed
	}
	if !b.join(peer, peer.SRQ) {
		return alone
	}
	rcv, ok := e.receive(peer, peer.SRQ)
	if !ok || peer.RecvCQ == nil {
		return proceed
	}
	if syndrome := e.scatterList(peer.Context.Device, peer.PD, rcv.segs, 0, w.n+grhSize); syndrome != 0 {
		if b.wqes > 0 {
			return alone
		}
		e.cqe(peer.RecvCQ, peer, cqeRespErr, peer.RecvIdx, 0, rcv.counter).failReceive(syndrome)
		e.consume(peer, peer.SRQ)
		e.commit()
		e.toErr(peer)
		return proceed
	}
	kind, n := uint32(0), w.n
	if a.grh {
		kind = e.header(from, a, w.n)
		e.src = append(e.src, piece{})
		copy(e.src[1:], e.src)
		e.src[0] = piece{n: grhSize, inl: b.tiny[:grhSize]}
		n += grhSize
	} else { // the first 40 bytes stay as they are
		e.scatterList(peer.Context.Device, peer.PD, rcv.segs, grhSize, w.n)
	}
	if v := e.carry(qp, w, qp.Mem, peer.Mem, n); v != proceed {
		return v
	}
	if a.grh { // for the next member of a group
		e.src = append(e.src[:0], e.src[1:]...)
	}
	op := uint8(cqeRespSend)
	imm := uint32(qp.Attr.PKeyIndex) // the index, where no immediate is
	if w.opcode == opSendImm {
		op, imm = cqeRespSendImm, w.imm
	}
	p := e.cqe(peer.RecvCQ, peer, op, peer.RecvIdx, 0, rcv.counter)
	sl := uint32(a.sl)
	if from.Config.LinkLayer == config.Ethernet {
		if sl = kind; kind != 0 {
			sl |= roceUDP
		}
		if g := from.GID(int(a.sgid)); g != nil && g.VLAN != 0 {
			p.img[29] |= cqeVLAN
			binary.BigEndian.PutUint16(p.img[30:], uint16(a.sl)>>1<<13|uint16(g.VLAN))
		}
	} else {
		binary.BigEndian.PutUint16(p.img[22:], from.Config.LID)
	}
	put32(p.img[24:], b2u(a.grh)<<28|sl<<24|qp.Num)
	put32(p.img[36:], imm)
	put32(p.img[44:], uint32(w.n)+grhSize)
	p.solicit(w)
	if e.Hooks.Trace != nil {
		e.traceRecv(peer, peer.SRQ, rcv, n)
	}
	e.consume(peer, peer.SRQ)
	return proceed
}

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
