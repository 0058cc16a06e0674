//go:build linux

package engine

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Fields of the completion of a frame.
const (
	cqeL2OK, cqeL3OK, cqeL4OK = 1 << 0, 1 << 1, 1 << 2 // hds_ip_ext
	cqeVLAN                   = 1 << 0                 // l4_hdr_type_etc: a tag was stripped
	cqeIPv6, cqeIPv4          = 1 << 2, 2 << 2
	cqeTCP, cqeUDP            = 4 << 4, 2 << 4
	cqeTCPNoData              = 3 << 4
)

// transmit takes the frame in frames.out from a port to all others that it is for, as a switch between them would: to
// the port with its address, and to all where none has it. A rule may keep it from leaving.
func (sw *switcher) transmit(qp *hca.QP, from *hca.Port) {
	f := &sw.frames
rules:
	for _, r := range from.Device.Flows() {
		switch {
		case int(r.Port) != from.Number:
		case r.Sniffs():
			sw.arrive(qp, r.To, 0)
		case r.Egress && sw.matches(r):
			r.Hit(len(f.out))
			if r.Drop || !f.change(r) || len(f.out) > from.MaxFrame() {
				return
			}
			if r.Param != nil {
				break rules
			}
		}
	}
	if !from.Active {
		return
	}
	mac := config.MAC(f.out[:6])
	known := sw.routes.portOf(mac)
	for _, to := range sw.f.Ports {
		if !to.Device.Gone && linked(from, to) && (known == nil || known == to) && (to != from || known == to ||
			mac[0]&1 != 0) {
			sw.steer(qp, to, to == from)
		}
	}
}

// portOf returns the port that has an address, or nil.
func (rt *routes) portOf(mac config.MAC) *hca.Port {
	for _, p := range rt.f.Ports {
		if p.Config.LinkLayer == config.Ethernet && p.Config.MAC == mac && !p.Device.Gone {
			return p
		}
	}
	return nil
}

// steer gives the frame to those that the rules of a port name. own is a frame that the port sent itself. Receivers of
// the sender's context want such a frame only if they were made with a flag: a context is a transport domain, and a
// second one makes mlx5_ib enable the port's local loopback.
func (sw *switcher) steer(qp *hca.QP, to *hca.Port, own bool) {
	f := &sw.frames
	self := uint32(hca.SelfUnicast)
	if f.out[0]&1 != 0 {
		self = hca.SelfMulticast
	}
	rules := to.Device.Flows()
	missed := false
	for i := 0; i < len(rules); i++ {
		r := rules[i]
		if missed && !r.Default() || int(r.Port) != to.Number || r.Egress || r.Sniffs() && own || !sw.matches(r) {
			continue
		}
		for _, o := range rules[i:] { // those of the same matches, this one first
			if o != r && !o.Same(r) || r.Sniffs() && o != r {
				continue
			}
			o.Hit(len(f.out))
			if o.To != nil && !o.Drop && (!own || o.To.Context != qp.Context || o.To.Flags&self != 0) {
				sw.arriveBy(qp, o)
			}
		}
		if missed = missed || r.Miss; r.Sniffs() || r.Miss {
			continue
		}
		if !r.DontTrap {
			return
		}
		for i+1 < len(rules) && rules[i+1].Table() == r.Table() {
			i++
		}
	}
}

// arriveBy gives the frame to the receiver of a rule, changed as the rule says.
func (sw *switcher) arriveBy(qp *hca.QP, r *hca.Flow) {
	f := &sw.frames
	if len(r.Changes) == 0 {
		sw.arrive(qp, r.To, r.Tag)
		return
	}
	f.was = append(f.was[:0], f.out...)
	if f.change(r) {
		sw.arrive(qp, r.To, r.Tag)
	}
	f.out = append(f.out[:0], f.was...)
	f.parse()
}

// matches reports whether a rule is about the frame.
func (sw *switcher) matches(r *hca.Flow) bool {
	f := &sw.frames
	if r.Param != nil {
		return r.Param.Matches(f.params())
	}
	if r.Type == hca.FlowMCDefault && f.out[0]&1 == 0 {
		return false
	}
	for i := range r.Matches {
		m := &r.Matches[i]
		if h := f.heads.fields(m.Spec); h == nil || !m.Matches(h) {
			return false
		}
	}
	return true
}

// arrive puts the frame in a receive of peer. The batch is qp's, and has no other work.
func (sw *switcher) arrive(qp, peer *hca.QP, tag uint32) {
	b := sw.b
	var hash uint32
	var hashed uint8
	if peer.Frames.RSS != nil {
		peer, hash, hashed = sw.spread(peer.Frames.RSS)
	}
	if peer.State < hca.RTR || peer.State == hca.Err || peer.Run.Dead || peer.Context.Dead || peer.RecvCQ == nil ||
		peer.RQ.Count == 0 {
		return
	}
	rcv, ok := sw.recvs.receive(peer, nil)
	if !ok {
		countAt(peer, hca.OutOfBuffer)
		return
	}
	in, tci, stripped := sw.frameFor(peer)
	b.peer, b.srq, b.epsn, b.head = peer, nil, peer.Run.EPSN, peer.Run.Head
	defer func() { b.peer = nil }()
	place, was := strides{}, peer.Run.Stride
	if peer.Frames.Striding.Count > 0 {
		if place, ok = sw.stride(peer, &rcv, uint32(len(in))); !ok {
			countAt(peer, hca.OutOfBuffer)
			return
		}
	}
	n := uint64(len(in))
	if bad := sw.lists.scatterList(peer.Context.Device, peer.PD, rcv.segs, place.skip, n); bad != 0 {
		sw.badReceive(peer, rcv, bad)
		return
	}
	whole := sw.fill(qp, peer, in)
	p := sw.comps.cqe(peer.RecvCQ, peer, cqeRespSend, peer.RecvIdx, 0, rcv.counter)
	sw.describe(p.img[:], tci, stripped)
	put32(p.img[12:], hash)
	p.img[16] = hashed
	put32(p.img[44:], uint32(len(sw.frames.in))|place.used<<16)
	binary.BigEndian.PutUint16(p.img[2:], place.wqe)
	put32(p.img[56:], tag)
	if sw.hooks.Trace != nil {
		sw.tr.traceRecv(peer, nil, rcv, uint64(len(sw.frames.in)))
	}
	if place.used == 0 || place.last {
		sw.recvs.consume(peer, nil)
	}
	if whole && sw.batches.commit() == okSide {
		return
	}
	b.clear()
	peer.Run.Head, peer.Run.Stride = b.head, was
	if b.err != guest.ErrGone {
		sw.strict.memoryGone(qp, &sw.sends.w, peer.Mem)
		sw.badReceive(peer, rcv, synLocalProt)
	}
}

// fill plans that the frame goes to the pieces of a receive. Far ones are written at once; if one is not there, it
// returns false.
func (sw *switcher) fill(qp, peer *hca.QP, in []byte) bool {
	b := sw.b
	for i := range sw.lists.dst {
		p := &sw.lists.dst[i]
		if p.far(peer.Mem) {
			if b.err = p.mem.Write(p.va, in[:p.n]); b.err != nil {
				return false
			}
		} else if !p.zero {
			b.single[0] = piece{n: p.n, inl: in[:p.n]}
			b.add(qp.Mem, peer.Mem, b.single[:], sw.lists.dst[i:i+1], 0, p.n)
		}
		in = in[p.n:]
	}
	return true
}

// frameFor makes frames.in what a QP wants of the frame, and returns it, with the tag that was stripped.
func (sw *switcher) frameFor(peer *hca.QP) (in []byte, tci uint16, stripped bool) {
	f := &sw.frames
	f.in = f.in[:0]
	if peer.Frames.Offloads&hca.StripVLAN != 0 && binary.BigEndian.Uint16(f.out[12:]) == etherVLAN {
		tci, stripped = binary.BigEndian.Uint16(f.out[14:]), true
		f.in = append(append(f.in, f.out[:12]...), f.out[16:]...)
	} else {
		f.in = append(f.in, f.out...)
	}
	if peer.Frames.Offloads&hca.ScatterFCS != 0 {
		f.in = binary.LittleEndian.AppendUint32(f.in, crc32.ChecksumIEEE(f.out))
	}
	return f.in, tci, stripped
}

// describe writes what the device found in the frame to its completion.
func (sw *switcher) describe(img []byte, tci uint16, stripped bool) {
	f := &sw.frames
	l := &f.heads.outer
	ip, transport := l.good(f.out)
	img[28] = cqeL2OK
	if ip {
		img[28] |= cqeL3OK
	}
	if transport {
		img[28] |= cqeL4OK
	}
	switch l.version {
	case 4:
		img[29] |= cqeIPv4
	case 6:
		img[29] |= cqeIPv6
	}
	switch b, _, _, ok := l.transport(f.out); {
	case !ok:
	case l.proto == protoUDP:
		img[29] |= cqeUDP
	case len(b) <= int(b[12]>>4)*4:
		img[29] |= cqeTCPNoData
	default:
		img[29] |= cqeTCP
	}
	if stripped {
		img[29] |= cqeVLAN
		binary.BigEndian.PutUint16(img[30:], tci)
	}
}
