//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

func put32(b []byte, v uint32) { binary.BigEndian.PutUint32(b, v) }

// rnrTime is the time of a min_rnr_timer, in µs (InfiniBand specification 9.7.5.2.8).
var rnrTime = [32]int64{
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920,
	2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
}

// local checks a local key and gives the memory under it.
func (e *Engine) local(d *hca.Device, pd *hca.PD, lkey uint32, addr, n uint64, need hca.Access) (piece, bool) {
	k := d.Key(lkey)
	switch {
	case k == nil:
		return piece{}, false
	case k.Kind == hca.KeyNull:
		return piece{n: n, zero: true}, true
	case k.Free || k.PD != pd || k.Kind != hca.KeyMR:
		return piece{}, false
	}
	va, ok := k.Resolve(addr, n, need)
	if ok && e.c.Strict {
		e.checkPrint(k, false)
	}
	return piece{va: va, n: n}, ok
}

// remoteKey checks a remote key as the responder does and gives the memory under it.
func (e *Engine) remoteKey(peer *hca.QP, pd *hca.PD, rkey uint32, addr, n uint64, need hca.Access) (piece, bool) {
	k := peer.Context.Device.Key(rkey)
	if k == nil || k.Free || k.PD != pd || k.Kind == hca.KeyNull || k.Kind == hca.KeyMW2 && k.QPN != peer.Num {
		return piece{}, false
	}
	va, ok := k.Resolve(addr, n, need)
	if ok && e.c.Strict {
		e.checkPrint(k, false)
	}
	return piece{va: va, n: n}, ok
}

// localList puts the memory of a WQE's list in dst. It returns a syndrome, or 0.
func (e *Engine) localList(qp *hca.QP, w *wqe, list []piece, need hca.Access) ([]piece, uint8) {
	for i := range w.sges[:w.nsge] {
		s := &w.sges[i]
		if s.inl != nil || s.n == 0 {
			if need != 0 {
				return list, synLocalQPOp
			}
			list = append(list, piece{n: uint64(s.n), inl: s.inl})
			continue
		}
		p, ok := e.local(qp.Context.Device, qp.PD, s.lkey, s.addr, uint64(s.n), need)
		if !ok {
			return list, synLocalProt
		}
		list = append(list, p)
	}
	return list, 0
}

// peer finds the QP that a connected QP is connected to, or nil if nothing answers there.
func (e *Engine) peer(qp *hca.QP) *hca.QP {
	r := &qp.Run
	if r.Epoch != e.epoch {
		r.Peer, r.Epoch = e.route(qp), e.epoch
	}
	return r.Peer
}

func (e *Engine) route(qp *hca.QP) *hca.QP {
	d := qp.Context.Device
	from, to := port(d, int(qp.Attr.Port)), e.destination(&qp.Attr.AH)
	if from == nil || to == nil || !from.Active || !to.Active || to.Device.Gone {
		return nil
	}
	p := to.Device.QP(qp.Attr.DestQPN)
	if p == nil || p.Run.Dead || p.Context.Dead || p.State < hca.RTR || p.State == hca.Err || p.Type != answers(qp.Type) {
		return nil
	}
	if p.Attr.DestQPN != qp.Num || int(p.Attr.Port) != to.Number {
		return nil
	}
	// The responder takes packets from where it is connected to, by the same encapsulation.
	if back := e.destination(&p.Attr.AH); back != from {
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

func answers(t hca.QPType) hca.QPType {
	if t == hca.XRCSend {
		return hca.XRCRecv
	}
	return t
}

func samePKey(a, b uint16) bool { return a&0x7fff == b&0x7fff && (a|b)&0x8000 != 0 }

func port(d *hca.Device, n int) *hca.Port {
	if n < 1 || n > len(d.Ports) {
		return nil
	}
	return d.Ports[n-1]
}

// destination is the port that an address leads to: by LID where there is one, else by GID.
func (e *Engine) destination(a *hca.AHAttr) *hca.Port {
	if a.DLID != 0 {
		if p := e.f.PortByLID(a.DLID); p != nil {
			return p
		}
	}
	if !a.Global {
		return nil
	}
	p, _ := e.f.PortByGID(&a.DGID)
	return p
}

// connected executes a WQE of RC, UC or XRC_SEND.
func (e *Engine) connected(qp *hca.QP, w *wqe) verdict {
	b, d := &e.b, qp.Context.Device
	empty := b.wqes == 0
	fail := func(syndrome uint8) verdict {
		if !empty {
			return alone
		}
		e.failWQE(qp, w, syndrome)
		return halt
	}
	var need hca.Access
	if w.info&(isRead|isAtomic) != 0 {
		need = hca.AccessLocalWrite
		if qp.Attr.MaxRdAtomic == 0 {
			return fail(synLocalQPOp)
		}
	}
	list, bad := e.localList(qp, w, e.src[:0], need)
	e.src = list
	switch {
	case bad != 0:
		return fail(bad)
	case w.n > uint64(d.Config.Limits.MaxMsgSize), w.info&isAtomic != 0 && w.n != uint64(w.asize):
		return fail(synLocalLength)
	}
	reliable := qp.Type != hca.UC
	peer := e.peer(qp)
	if peer == nil || reliable && peer.Run.EPSN != qp.Run.PSN {
		if !reliable {
			e.finish(qp, w, w.n, 0) // lost on the wire
			return taken
		}
		if empty {
			e.noAnswer(qp, w)
			return halt
		}
		return alone
	}

	// The responder.
	pd, rcq, uidx := peer.PD, peer.RecvCQ, peer.RecvIdx
	srq := peer.SRQ
	refuse := func(nak, own uint8) verdict {
		if !empty {
			return alone
		}
		if !reliable && own == 0 {
			e.finish(qp, w, w.n, 0)
			return taken
		}
		e.refuse(qp, w, peer, srq, nak, own)
		return halt
	}
	if peer.Type == hca.XRCRecv {
		if srq = peer.XRCD.Device.SRQ(w.srqn); srq == nil || !srq.XRC || srq.XRCD != peer.XRCD {
			srq = nil
			return refuse(synRemoteInval, 0)
		}
		pd, rcq, uidx = srq.PD, srq.CQ, srq.UIdx
	}
	if !b.join(peer, srq) {
		return alone
	}
	if peer.State == hca.RTR && !peer.Run.CommEst {
		peer.Run.CommEst = true
		peer.Event(hca.EventCommEst)
	}
	mtu, theirs := uint64(128)<<qp.Attr.PathMTU, uint64(128)<<peer.Attr.PathMTU
	if mtu != theirs && w.n > min(mtu, theirs) {
		return refuse(synRemoteInval, 0)
	}
	packets := uint32(max((w.n+mtu-1)/mtu, 1))
	var target piece
	if w.info&(isWrite|isRead|isAtomic) != 0 {
		right := hca.AccessRemoteWrite
		switch {
		case w.info&isRead != 0:
			right = hca.AccessRemoteRead
		case w.info&isAtomic != 0:
			right = hca.AccessRemoteAtomic
			if w.remote&uint64(w.asize-1) != 0 {
				return refuse(synRemoteInval, 0)
			}
		}
		if right != hca.AccessRemoteWrite && peer.Attr.MaxDestRdAtomic == 0 || peer.Attr.Access&right == 0 {
			return refuse(synRemoteInval, 0)
		}
		if w.n > 0 {
			var ok bool
			if target, ok = e.remoteKey(peer, pd, w.rkey, w.remote, w.n, right); !ok {
				return refuse(synRemoteAccess, 0)
			}
		}
	}
	switch {
	case w.info&isAtomic != 0:
		if !empty {
			return alone
		}
		return e.atomicOp(qp, w, peer, target, packets)
	case w.info&isRead != 0:
		return e.read(qp, w, peer, target, packets)
	}

	var rcv recvEntry
	inCQE := false
	if w.info&isSend != 0 {
		var ok bool
		if rcv, ok = e.receive(peer, srq); !ok {
			if peer.State == hca.Err || peer.Run.Dead {
				return alone // its queue could not be read
			}
			if !reliable {
				e.finish(qp, w, w.n, 0)
				return taken
			}
			if !empty {
				return alone
			}
			e.rnr(qp, w, rnrTime[peer.Attr.MinRNRTimer&31])
			return halt
		}
		if w.opcode == opSendInval {
			if !empty {
				return alone
			}
			if !invalidate(peer, w.imm) {
				return refuse(synRemoteAccess, 0)
			}
		}
	}
	e.dst = e.dst[:0]
	switch {
	case w.info&isWrite != 0:
		if w.n > 0 {
			e.dst = append(e.dst, target)
		}
	default:
		switch e.scatterList(peer.Context.Device, pd, rcv.segs, 0, w.n) {
		case synLocalProt:
			return refuse(synRemoteOp, synLocalProt)
		case synLocalLength:
			return refuse(synRemoteInval, synLocalLength)
		}
		inCQE = w.n > 0 && rcq != nil && w.n <= uint64(rcq.CQESize/2) && w.n <= 64 && peer.Flags&qpScatterCQE != 0 && peer.Type != hca.XRCRecv
	}
	if inCQE {
		if b.dirty(qp.Mem, e.src) {
			return alone
		}
		if !b.small(qp.Mem, e.src, w.n) {
			if empty {
				e.badMemory(qp, badSource)
				return halt
			}
			return alone
		}
	} else if v := e.carry(qp, w, qp.Mem, peer.Mem, peer); v != taken {
		return v
	}
	if w.info&isSend != 0 && rcq != nil {
		op := uint8(cqeRespSend)
		switch w.opcode {
		case opWriteImm:
			op = cqeRespWrImm
		case opSendImm:
			op = cqeRespSendImm
		case opSendInval:
			op = cqeRespSendInv
		}
		p := e.cqe(rcq, peer, op, uidx, 0, rcv.counter)
		if inCQE {
			p.inline(b.tiny[:w.n])
		} else {
			put32(p.img[24:], qp.Num)
		}
		put32(p.img[36:], w.imm)
		put32(p.img[44:], uint32(w.n))
		p.solicit(w)
	}
	if w.info&isSend != 0 {
		if e.Hooks.Trace != nil {
			e.trace(Record{Kind: KindRecv, QP: peer, SRQ: srq, PID: peer.Mem.PID, Index: uint32(rcv.counter), N: w.n})
		}
		e.consume(peer, srq)
	}
	peer.Run.EPSN = (peer.Run.EPSN + packets) & 0xffffff
	e.finish(qp, w, w.n, packets)
	return taken
}

// solicit marks a responder's completion whose message asks for an event.
func (p *pending) solicit(w *wqe) {
	if w.flags&flagSolicited != 0 {
		p.sol = true
		p.img[63] |= 2
	}
}

// inline puts a payload in the completion itself.
func (p *pending) inline(data []byte) {
	if p.cq.CQESize == 128 {
		p.wide = true
		copy(p.inl[:], data)
		p.img[63] |= scatter64
		return
	}
	copy(p.img[:32], data)
	p.img[63] |= scatter32
}

// small reads a payload of up to 64 bytes right away.
func (b *batch) small(m memory, from []piece, n uint64) bool {
	k := 0
	for i := range from {
		p := &from[i]
		d := b.tiny[k : k+int(p.n)]
		switch {
		case p.inl != nil:
			copy(d, p.inl)
		case p.zero:
			clear(d)
		case p.n > 0:
			if b.err = m.Read(p.va, d); b.err != nil {
				return false
			}
		}
		k += len(d)
	}
	if b.flip >= 0 {
		b.tiny[0] ^= 1
		b.flip = -1
	}
	return true
}

// carry takes the message from e.src to e.dst.
func (e *Engine) carry(qp *hca.QP, w *wqe, src, dst memory, peer *hca.QP) verdict {
	b := &e.b
	if w.n == 0 {
		return taken
	}
	sink := false
	for i := range e.dst {
		sink = sink || e.dst[i].zero
	}
	if sink || w.n > uint64(e.c.Bounce) {
		if b.wqes > 0 {
			return alone
		}
		return e.bulk(qp, src, dst, w.n, sink)
	}
	if !b.fits(src, dst, e.src, w.n, e.c.Bounce) {
		if b.wqes == 0 { // too many spans for a batch: cannot be with 63 segments
			e.failWQE(qp, w, synLocalLength)
			return halt
		}
		return alone
	}
	if side := b.add(src, dst, e.src, e.dst, 0, w.n); side != okSide {
		if b.wqes > 0 {
			return broken
		}
		e.badMemory(qp, side)
		return halt
	}
	return taken
}

// bulk carries a message that is larger than the bounce buffer, or part of which goes nowhere. Between its pieces others may have the fabric's lock; if they
// change a queue meanwhile, the message starts again.
func (e *Engine) bulk(qp *hca.QP, src, dst memory, n uint64, sink bool) verdict {
	b := &e.b
	step := uint64(e.c.Bounce)
	for off := uint64(0); off < n; {
		k := min(n-off, step)
		to := e.dst
		if sink { // piece by piece of the target
			var at uint64
			for i := range e.dst {
				p := e.dst[i]
				if off < at+p.n {
					k = min(k, at+p.n-off)
					p.va, p.n = p.va+off-at, p.n-(off-at)
					b.one[0] = p
					to = b.one[:1]
					break
				}
				at += p.n
			}
			if to[0].zero {
				off += k
				continue
			}
			if side := b.add(src, dst, e.src, nil, off, k); side != okSide {
				e.badMemory(qp, side)
				return halt
			}
			b.siov = append(b.siov, guestIOV{Base: to[0].va, Len: k})
		} else if side := b.add(src, dst, e.src, to, off, k); side != okSide {
			e.badMemory(qp, side)
			return halt
		}
		if side := e.commit(); side != okSide {
			e.badMemory(qp, side)
			return halt
		}
		off += k
		if off < n && e.yield() {
			return halt
		}
	}
	e.restarts = 0
	return taken
}

// yield lets others have the lock when this turn is over. It reports that they changed something.
func (e *Engine) yield() bool {
	if e.restarts > 3 || nanos() < e.limit {
		return false
	}
	epoch := e.epoch
	e.yielding = true
	e.f.Mutex.Unlock()
	e.f.Mutex.Lock()
	e.yielding = false
	e.limit = nanos() + int64(e.c.Turn)
	if e.epoch == epoch && !e.stop {
		return false
	}
	e.restarts++
	return true
}

// noAnswer is a request that nothing answers: try again after the timeout, as often as the QP says.
func (e *Engine) noAnswer(qp *hca.QP, w *wqe) {
	r := &qp.Run
	if e.Hooks.Trace != nil {
		e.trace(Record{Kind: KindRetry, QP: qp, PID: qp.Mem.PID, Index: uint32(w.idx), Syndrome: synRetry, N: uint64(r.Tries)})
	}
	countAt(qp, hca.AckTimeout)
	if r.Tries > qp.Attr.RetryCnt {
		e.failWQE(qp, w, synRetry)
		return
	}
	r.Tries++
	r.Wait = waitAck
	e.remember(qp, w)
	if t := qp.Attr.Timeout & 31; t != 0 {
		e.after(4096<<t, qp, nil)
	}
}

// rnr is a responder without a receive.
func (e *Engine) rnr(qp *hca.QP, w *wqe, us int64) {
	r := &qp.Run
	if e.Hooks.Trace != nil {
		e.trace(Record{Kind: KindRetry, QP: qp, PID: qp.Mem.PID, Index: uint32(w.idx), Syndrome: synRNR, N: uint64(r.RNRTries)})
	}
	countAt(qp, hca.RNRNak)
	countAt(r.Peer, hca.OutOfBuffer)
	if n := qp.Attr.RNRRetry & 7; n < 7 {
		if r.RNRTries >= n {
			e.failWQE(qp, w, synRNR)
			return
		}
		r.RNRTries++
	}
	r.Wait = waitRNR
	e.remember(qp, w)
	e.after(max(us, 10)*1000, qp, nil)
}

// refuse is a NAK: the requester's WQE ends with it, and the responder is broken too. own is the syndrome of the responder's receive, or 0 if that is not
// touched and the program is told by an event.
func (e *Engine) refuse(qp *hca.QP, w *wqe, peer *hca.QP, srq *hca.SRQ, nak, own uint8) {
	if nak == synRemoteAccess {
		countAt(peer, hca.RespRemoteAccess)
	}
	if own != 0 {
		cq, uidx := peer.RecvCQ, peer.RecvIdx
		if peer.Type == hca.XRCRecv && srq != nil {
			cq, uidx = srq.CQ, srq.UIdx
		}
		if rcv, ok := e.receive(peer, srq); ok && cq != nil {
			p := e.cqe(cq, peer, cqeRespErr, uidx, 0, rcv.counter)
			vendor := uint8(vendorRecvLength)
			if own == synLocalProt {
				vendor = vendorRecvProt
			}
			p.fail(own, vendor)
			e.consume(peer, srq)
		}
	}
	if qp.Type == hca.UC || qp.Type == hca.UD {
		e.finish(qp, w, w.n, 0)
		e.commit()
	} else {
		e.failWQE(qp, w, nak)
	}
	if own == 0 {
		if nak == synRemoteAccess {
			peer.Event(hca.EventQPAccessErr)
		} else {
			peer.Event(hca.EventQPReqErr)
		}
	}
	e.toErr(peer)
}
