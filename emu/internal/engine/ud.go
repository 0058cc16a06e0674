//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

const avSize = 48 // the segment that says where to

// datagram executes a WQE of UD. Nobody tells the sender whether it arrived.
func (dg *datagrams) datagram(qp *hca.QP, w *wqe) verdict {
	list, bad := dg.lists.localList(qp, w, dg.lists.src[:0], 0)
	dg.lists.src = list
	from := qp.Port()
	switch {
	case bad != 0:
		return dg.req.failed(qp, w, bad)
	case from == nil || w.n > uint64(mtuBytes(from)):
		return dg.req.failed(qp, w, synLocalLength)
	}
	a := addressOf(w.av, from)
	if a.qkey>>31 != 0 {
		a.qkey = qp.Attr.QKey
	}
	v := proceed
	if a.grh && hca.Multicast(&a.gid) {
		v = dg.multicast(qp, from, w, &a)
	} else if peer := dg.routes.named(from, &a); peer != nil {
		v = dg.reach(qp, peer, from, w, &a)
	}
	if v != proceed {
		return v
	}
	return dg.req.done(qp, w, w.n)
}

// multicast sends a datagram to each member of a group, in a batch of its own.
func (dg *datagrams) multicast(qp *hca.QP, from *hca.Port, w *wqe, a *addressVector) verdict {
	b := dg.b
	if b.wqes > 0 {
		return alone
	}
	dg.groups = dg.groups[:0]
	for _, d := range dg.f.Devices {
		if !d.Gone {
			dg.groups = append(dg.groups, d.Group(a.gid)...)
		}
	}
	for _, peer := range dg.groups {
		if peer.Run.Dead {
			continue
		}
		to := peer.Port()
		if to == nil || !linked(from, to) {
			continue
		}
		dg.reach(qp, peer, from, w, a)
		if side := dg.batches.commit(); side == badSource {
			dg.req.badMemory(qp, side)
			return halt
		}
		b.peer, b.srq = nil, nil
	}
	return proceed
}

func mtuBytes(p *hca.Port) int { return 128 << p.Config.ActiveMTU }

// reach puts a datagram in a receive of peer, if peer accepts it.
func (dg *datagrams) reach(qp, peer *hca.QP, from *hca.Port, w *wqe, a *addressVector) verdict {
	b := dg.b
	if peer.Type != hca.UD || peer.State < hca.RTR || peer.State == hca.Err || peer.Context.Dead {
		return proceed
	}
	if peer.Attr.QKey != a.qkey || !samePartition(qp, peer) {
		return proceed
	}
	if !b.join(peer, peer.SRQ) {
		return alone
	}
	rcv, ok := dg.recvs.receive(peer, peer.SRQ)
	if !ok || peer.RecvCQ == nil {
		return proceed
	}
	if syndrome := dg.lists.scatterList(peer.Context.Device, peer.PD, rcv.segs, 0, w.n+grhSize); syndrome != 0 {
		if b.wqes > 0 {
			return alone
		}
		dg.badReceive(peer, rcv, syndrome)
		return proceed
	}
	kind, n := uint32(0), w.n
	if a.grh {
		kind = dg.header(from, a, w.n)
		dg.lists.src = append(dg.lists.src, piece{})
		copy(dg.lists.src[1:], dg.lists.src)
		dg.lists.src[0] = piece{n: grhSize, inl: b.tiny[:grhSize]}
		n += grhSize
	} else { // the first 40 bytes stay as they are
		dg.lists.scatterList(peer.Context.Device, peer.PD, rcv.segs, grhSize, w.n)
	}
	if v := dg.req.carry(qp, w, qp.Mem, peer.Mem, n); v != proceed {
		return v
	}
	if a.grh { // for the next member of a group
		dg.lists.src = append(dg.lists.src[:0], dg.lists.src[1:]...)
	}
	dg.complete(qp, peer, from, w, a, rcv, kind)
	if dg.hooks.Trace != nil {
		dg.tr.traceRecv(peer, peer.SRQ, rcv, n)
	}
	dg.recvs.consume(peer, peer.SRQ)
	return proceed
}

// complete completes the receive of a datagram. kind is what [datagrams.header] returned.
func (dg *datagrams) complete(qp, peer *hca.QP, from *hca.Port, w *wqe, a *addressVector, rcv recvEntry, kind uint32) {
	op := uint8(cqeRespSend)
	imm := uint32(qp.Attr.PKeyIndex) // the index, where no immediate is
	if w.opcode == opSendImm {
		op, imm = cqeRespSendImm, w.imm
	}
	p := dg.comps.cqe(peer.RecvCQ, peer, op, peer.RecvIdx, 0, rcv.counter)
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
}

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
