//go:build linux

package engine

import (
	"encoding/binary"
	"net/netip"

	"github.com/pureverbs/pureverbs/internal/emu/config"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

const (
	grhSize   = 40
	mcastLIDs = 0xc000
)

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
		qkey: binary.BigEndian.Uint32(b), qpn: binary.BigEndian.Uint32(b[8:]) & 0xffffff, lid: binary.BigEndian.Uint16(b[14:]), sl: b[12] & 15,
		tclass: b[26], hop: b[27], grh: g>>30&1 != 0, sgid: uint8(g >> 20), flow: g & 0xfffff,
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

// datagram executes a WQE of UD.
func (e *Engine) datagram(qp *hca.QP, w *wqe) verdict {
	b, d := &e.b, qp.Context.Device
	empty := b.wqes == 0
	fail := func(syndrome uint8) verdict {
		if !empty {
			return alone
		}
		e.failWQE(qp, w, syndrome)
		return halt
	}
	list, bad := e.localList(qp, w, e.src[:0], 0)
	e.src = list
	from := port(d, int(qp.Attr.Port))
	switch {
	case bad != 0:
		return fail(bad)
	case from == nil || w.n > uint64(mtuBytes(from)):
		return fail(synLocalLength)
	}
	a := parseAV(w.av)
	if a.qkey>>31 != 0 {
		a.qkey = qp.Attr.QKey
	}
	ether := from.Config.LinkLayer == config.Ethernet
	a.grh = a.grh || ether
	a.fillPrefix(from)
	if multicast := a.grh && hca.Multicast(&a.gid); multicast {
		if !empty {
			return alone
		}
		e.groups = e.groups[:0]
		for _, d := range e.f.Devices {
			if !d.Gone {
				e.groups = append(e.groups, d.Group(a.gid)...)
			}
		}
		group := e.groups
		for _, peer := range group {
			if peer.Run.Dead {
				continue
			}
			to := port(peer.Context.Device, int(peer.Attr.Port))
			if from.Active && to != nil && to.Active && from.Config.LinkLayer == to.Config.LinkLayer {
				e.drop(qp, peer, from, to, w, &a)
				if side := e.commit(); side == badSource {
					e.badMemory(qp, side)
					return halt
				}
				b.peer, b.srq = nil, nil
			}
		}
		e.finish(qp, w, w.n, 0)
		return taken
	}
	to := e.destination(&hca.AHAttr{DLID: a.lid, DGID: a.gid, Global: a.grh})
	var peer *hca.QP
	if to != nil && from.Active && to.Active && !to.Device.Gone && from.Config.LinkLayer == to.Config.LinkLayer {
		peer = to.Device.QP(a.qpn)
	}
	if peer != nil && !peer.Run.Dead && int(peer.Attr.Port) == to.Number {
		if v := e.drop(qp, peer, from, to, w, &a); v != taken {
			return v
		}
	}
	e.finish(qp, w, w.n, 0)
	return taken
}

func mtuBytes(p *hca.Port) int { return 128 << p.Config.ActiveMTU }

// drop puts a datagram in a receive of peer, if that takes it; nobody is told if not.
func (e *Engine) drop(qp, peer *hca.QP, from, to *hca.Port, w *wqe, a *addressVector) verdict {
	b := &e.b
	if peer.Type != hca.UD || peer.State < hca.RTR || peer.State == hca.Err || peer.Context.Dead || peer.Attr.QKey != a.qkey ||
		!samePKey(from.PKey(int(qp.Attr.PKeyIndex)), to.PKey(int(peer.Attr.PKeyIndex))) {
		return taken
	}
	if !b.join(peer, peer.SRQ) {
		return alone
	}
	rcv, ok := e.receive(peer, peer.SRQ)
	if !ok || peer.RecvCQ == nil {
		return taken
	}
	syndrome := e.scatterList(peer.Context.Device, peer.PD, rcv.segs, 0, w.n+grhSize)
	if syndrome != 0 {
		if b.wqes > 0 {
			return alone
		}
		p := e.cqe(peer.RecvCQ, peer, cqeRespErr, peer.RecvIdx, 0, rcv.counter)
		vendor := uint8(vendorRecvLength)
		if syndrome == synLocalProt {
			vendor = vendorRecvProt
		}
		p.fail(syndrome, vendor)
		e.consume(peer, peer.SRQ)
		e.commit()
		e.toErr(peer)
		return taken
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
	w.n, n = n, w.n
	v := e.carry(qp, w, qp.Mem, peer.Mem, peer)
	w.n, n = n, w.n
	if v != taken {
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
		sl = kind
	} else {
		binary.BigEndian.PutUint16(p.img[22:], from.Config.LID)
	}
	put32(p.img[24:], b2u(a.grh)<<28|sl<<24|qp.Num)
	put32(p.img[36:], imm)
	put32(p.img[44:], uint32(w.n)+grhSize)
	p.solicit(w)
	if e.Hooks.Trace != nil {
		e.trace(Record{Kind: KindRecv, QP: peer, SRQ: peer.SRQ, PID: peer.Mem.PID, Index: uint32(rcv.counter), N: n})
	}
	e.consume(peer, peer.SRQ)
	return taken
}

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// header builds the 40 bytes in front of a datagram in e.b.tiny: a GRH, an IPv6 header, or 20 bytes of nothing and an IPv4 header. It returns the kind of
// header as completions of RoCE tell it: 0, 1, 2.
func (e *Engine) header(from *hca.Port, a *addressVector, n uint64) uint32 {
	h := e.b.tiny[:grhSize]
	clear(h)
	var src [16]byte
	kind := uint32(0)
	if g := from.GID(int(a.sgid)); g != nil {
		src = g.GID
		if g.Type == config.GIDTypeRoCEv2 {
			kind = 1
			if mapped(&src) && mapped(&a.gid) {
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
		sum := uint32(0)
		for i := 0; i < 20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(h[i:]))
		}
		sum = sum&0xffff + sum>>16
		binary.BigEndian.PutUint16(h[10:], ^uint16(sum&0xffff+sum>>16))
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

// mapped tells if a GID is an IPv4 address.
func mapped(g *[16]byte) bool {
	return g[10] == 0xff && g[11] == 0xff && binary.BigEndian.Uint64(g[:]) == 0 && g[8] == 0 && g[9] == 0
}
