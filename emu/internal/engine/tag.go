//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Operations of a tag matching header. C: enum ibv_tmh_op.
const (
	tmhRendezvous = 1
	tmhEager      = 3

	tmhSize = 16
	rvhSize = 16
)

// What a completion of tag matching tells. C: MLX5_CQE_APP_OP_TM_*.
const (
	tmConsumed           = 0x1 // matched, the payload is to come
	tmExpected           = 0x2 // it came
	tmUnexpected         = 0x3
	tmNoTag              = 0x4
	tmAppend             = 0x5
	tmRemove             = 0x6
	tmNOP                = 0x7
	tmConsumedMsg        = 0xa // matched, with its payload
	tmConsumedRendezvous = 0xb // matched, and left to the program
	tmCanceled           = 0xc

	appTagMatching = 1
)

// tmCQE makes a completion one of tag matching; head is where the header of the message begins. Only the completion of
// the match itself has it: not that of the payload, nor that of a message without a match.
func (p *pending) tmCQE(op uint8, index uint16, head []byte) *pending {
	copy(p.img[:tmhSize], head)
	p.img[40], p.img[41] = appTagMatching, op
	binary.BigEndian.PutUint16(p.img[42:], index)
	return p
}

// peek reads the beginning of e.src. It reports whether all of it is there.
func (e *Engine) peek(b []byte) bool {
	for i := range e.src {
		p := &e.src[i]
		n := min(int(p.n), len(b))
		switch {
		case n == 0:
			continue
		case p.inl != nil:
			copy(b, p.inl[:n])
		case p.zero:
			clear(b[:n])
		default:
			if e.b.err = p.mem.Read(p.va, b[:n]); e.b.err != nil {
				return false
			}
		}
		b = b[n:]
	}
	return true
}

// skip leaves out the beginning of e.src.
func (e *Engine) skip(n uint64) {
	for i := range e.src {
		p := &e.src[i]
		k := min(n, p.n)
		n, p.n, p.va = n-k, p.n-k, p.va+k
		if p.inl != nil {
			p.inl = p.inl[k:]
		}
	}
}

// tagged executes a SEND to an SRQ with tag matching, in a batch of its own.
func (e *Engine) tagged(x *exchange) verdict {
	b, w := &e.b, x.w
	if b.wqes > 0 {
		return alone
	}
	var head [tmhSize + rvhSize]byte
	if !e.peek(head[:min(w.n, uint64(len(head)))]) {
		e.badMemory(x.qp, badSource)
		return halt
	}
	r := &x.srq.Run.Tags
	op := head[0]
	if w.n < tmhSize || op != tmhEager && (op != tmhRendezvous || w.n < uint64(len(head))) {
		return e.untagged(x, tmNoTag)
	}
	i := r.Match(binary.BigEndian.Uint64(head[8:]))
	if i < 0 {
		v := e.untagged(x, tmUnexpected)
		if v == executed {
			r.HW++
		}
		return v
	}
	if op == tmhRendezvous {
		return e.matchRendezvous(x, uint16(i), head)
	}
	e.skip(tmhSize)
	if v := e.fillTag(x, uint16(i), w.n-tmhSize); v != proceed {
		return v
	}
	if x.packets > 1 {
		e.tmDone(x, cqeNoPacket, tmConsumed, uint16(i), head[:], 0)
		e.tmDone(x, sendCompletion(w), tmExpected, uint16(i), nil, w.n-tmhSize)
	} else {
		e.tmDone(x, sendCompletion(w), tmConsumedMsg, uint16(i), head[:], w.n-tmhSize)
	}
	return e.takeTag(x, uint16(i))
}

// fillTag moves n bytes of a message into the buffer of a tag.
func (e *Engine) fillTag(x *exchange, index uint16, n uint64) verdict {
	switch e.scatterList(x.peer.Context.Device, x.srq.PD, x.srq.Run.Tags.List[index].Data[:], 0, n) {
	case synLocalProt:
		return e.refused(x, synRemoteOp, synLocalProt)
	case synLocalLength:
		return e.refused(x, synRemoteInval, synLocalLength)
	}
	return e.carry(x.qp, x.w, x.qp.Mem, x.mem, n)
}

// tmDone completes a match, or what came of it.
func (e *Engine) tmDone(x *exchange, opcode, op uint8, index uint16, head []byte, n uint64) {
	p := e.cqe(x.cq, x.peer, opcode, x.uidx, 0, 0).tmCQE(op, index, head)
	put32(p.img[24:], x.qp.Num)
	put32(p.img[36:], x.w.imm)
	put32(p.img[44:], uint32(n))
	p.solicit(x.w)
}

// takeTag takes a tag out of the list when its message is in memory.
func (e *Engine) takeTag(x *exchange, index uint16) verdict {
	if side := e.commit(); side != okSide {
		e.badMemory(x.qp, side)
		return halt
	}
	x.srq.Run.Tags.Remove(index)
	e.acknowledged(x)
	return executed
}

// untagged puts a message, headers and all, where the SRQ's receive says.
func (e *Engine) untagged(x *exchange, op uint8) verdict {
	if v := e.nextReceive(x); v != proceed {
		return v
	}
	switch e.scatterList(x.peer.Context.Device, x.pd, x.recv.segs, 0, x.w.n) {
	case synLocalProt:
		return e.refused(x, synRemoteOp, synLocalProt)
	case synLocalLength:
		return e.refused(x, synRemoteInval, synLocalLength)
	}
	if v := e.carry(x.qp, x.w, x.qp.Mem, x.mem, x.w.n); v != proceed {
		return v
	}
	e.received(x, sendCompletion(x.w), false).tmCQE(op, 0, nil)
	if side := e.commit(); side != okSide {
		e.badMemory(x.qp, side)
		return halt
	}
	e.acknowledged(x)
	return executed
}

// sendCompletion returns the opcode of the receive's completion of a SEND.
func sendCompletion(w *wqe) uint8 {
	switch w.opcode {
	case opSendImm:
		return cqeRespSendImm
	case opSendInval:
		return cqeRespSendInv
	}
	return cqeRespSend
}

// matchRendezvous begins the transfer of a message that the peer has kept, or leaves it to the program if its buffer is
// too small.
func (e *Engine) matchRendezvous(x *exchange, index uint16, head [tmhSize + rvhSize]byte) verdict {
	t := &x.srq.Run.Tags.List[index]
	room := uint64(binary.BigEndian.Uint32(t.Data[:]))
	n := uint64(binary.BigEndian.Uint32(head[28:]))
	if n > room || x.w.n > hca.MaxRendezvous {
		if v := e.fillTag(x, index, min(x.w.n, room)); v != proceed {
			return v
		}
		e.tmDone(x, sendCompletion(x.w), tmConsumedRendezvous, index, head[:], min(x.w.n, room))
		return e.takeTag(x, index)
	}
	z := hca.Rendezvous{SRQ: x.srq, Index: index, Data: t.Data, Head: head}
	e.tmDone(x, cqeNoPacket, tmConsumed, index, head[:], 0)
	v := e.takeTag(x, index)
	if v == executed {
		x.peer.Run.Rendezvous = append(x.peer.Run.Rendezvous, z)
		e.push(x.peer)
	}
	return v
}

// rendezvous works on what a QP has to read, before its own work requests. It reports whether nothing of it is left.
func (e *Engine) rendezvous(qp *hca.QP) bool {
	r := &qp.Run
	for len(r.Rendezvous) > 0 {
		z := &r.Rendezvous[0]
		w := &e.w
		*w = wqe{own: true, idx: uint16(r.Tail), qpn: qp.Num, nsge: 1}
		e.win.n = 0
		if z.Read {
			w.opcode, w.n = opSend, uint64(len(z.Head))
			w.sges[0] = sge{n: uint32(len(z.Head)), inl: z.Head[:]}
		} else {
			w.opcode, w.n = opRead, uint64(binary.BigEndian.Uint32(z.Head[28:]))
			w.remote, w.rkey = binary.BigEndian.Uint64(z.Head[16:]), binary.BigEndian.Uint32(z.Head[24:])
			w.sges[0] = sge{n: uint32(w.n), lkey: binary.BigEndian.Uint32(z.Data[4:]),
				addr: binary.BigEndian.Uint64(z.Data[8:])}
		}
		if w.is = opcodes[w.opcode]; w.n == 0 {
			w.nsge = 0
		}
		e.begin(qp)
		switch v := e.connected(qp, w); {
		case v == halt:
			return false
		case v == alone: // somebody is gone
			e.push(qp)
			return false
		case v == broken:
			e.badMemory(qp, badTarget)
			return false
		}
		if z.Read {
			e.commit()
			r.Rendezvous = append(r.Rendezvous[:0], r.Rendezvous[1:]...)
			continue
		}
		p := e.cqe(z.SRQ.CQ, qp, cqeRespSend, z.SRQ.UIdx, 0, 0).tmCQE(tmExpected, z.Index, nil)
		put32(p.img[24:], qp.Attr.DestQPN)
		put32(p.img[44:], uint32(w.n))
		if side := e.commit(); side != okSide {
			e.undo()
			e.badMemory(qp, side)
			return false
		}
		z.Read, z.Head[0] = true, 2
	}
	return true
}

// cancelRendezvous tells that what a QP in ERR was to read does not come. It reports whether all was told.
func (e *Engine) cancelRendezvous(qp *hca.QP) bool {
	r := &qp.Run
	for len(r.Rendezvous) > 0 && qp.State == hca.Err {
		if len(e.b.cqes) == cap(e.b.cqes) {
			return false
		}
		if z := &r.Rendezvous[0]; !z.Read {
			e.cqe(z.SRQ.CQ, qp, cqeRespSend, z.SRQ.UIdx, 0, 0).tmCQE(tmCanceled, z.Index, z.Head[:])
		}
		r.Rendezvous = append(r.Rendezvous[:0], r.Rendezvous[1:]...)
	}
	return true
}
