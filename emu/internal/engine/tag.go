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

// skip leaves out the beginning of src.
func (ls *lists) skip(n uint64) {
	for i := range ls.src {
		p := &ls.src[i]
		k := min(n, p.n)
		n, p.n, p.va = n-k, p.n-k, p.va+k
		if p.inl != nil {
			p.inl = p.inl[k:]
		}
	}
}

// tagged executes a SEND to an SRQ with tag matching, in a batch of its own.
func (rs *responder) tagged(x *exchange) verdict {
	b, w := rs.b, x.w
	if b.wqes > 0 {
		return alone
	}
	var head [tmhSize + rvhSize]byte
	if b.err = gather(rs.lists.src, head[:min(w.n, uint64(len(head)))]); b.err != nil {
		rs.req.badMemory(x.qp, badSource)
		return halt
	}
	r := &x.srq.Run.Tags
	op := head[0]
	if w.n < tmhSize || op != tmhEager && (op != tmhRendezvous || w.n < uint64(len(head))) {
		return rs.untagged(x, tmNoTag)
	}
	i := r.Match(binary.BigEndian.Uint64(head[8:]))
	if i < 0 {
		v := rs.untagged(x, tmUnexpected)
		if v == executed {
			r.HW++
		}
		return v
	}
	if op == tmhRendezvous {
		return rs.matchRendezvous(x, uint16(i), head)
	}
	rs.lists.skip(tmhSize)
	if v := rs.fillTag(x, uint16(i), w.n-tmhSize); v != proceed {
		return v
	}
	if x.packets > 1 {
		rs.tmDone(x, cqeNoPacket, tmConsumed, uint16(i), head[:], 0)
		rs.tmDone(x, sendCompletion(w), tmExpected, uint16(i), nil, w.n-tmhSize)
	} else {
		rs.tmDone(x, sendCompletion(w), tmConsumedMsg, uint16(i), head[:], w.n-tmhSize)
	}
	return rs.takeTag(x, uint16(i))
}

// fillTag moves n bytes of a message into the buffer of a tag.
func (rs *responder) fillTag(x *exchange, index uint16, n uint64) verdict {
	if v := rs.scatter(x, x.srq.PD, x.srq.Run.Tags.List[index].Data[:], n); v != proceed {
		return v
	}
	return rs.req.carry(x.qp, x.w, x.qp.Mem, x.mem, n)
}

// tmDone completes a match, or what came of it.
func (rs *responder) tmDone(x *exchange, opcode, op uint8, index uint16, head []byte, n uint64) {
	p := rs.comps.cqe(x.cq, x.peer, opcode, x.uidx, 0, 0).tmCQE(op, index, head)
	put32(p.img[24:], x.qp.Num)
	put32(p.img[36:], x.w.imm)
	put32(p.img[44:], uint32(n))
	p.solicit(x.w)
}

// takeTag takes a tag out of the list when its message is in memory.
func (rs *responder) takeTag(x *exchange, index uint16) verdict {
	if !rs.req.commit(x.qp) {
		return halt
	}
	x.srq.Run.Tags.Remove(index)
	rs.req.acknowledged(x)
	return executed
}

// untagged puts a message, headers and all, where the SRQ's receive says.
func (rs *responder) untagged(x *exchange, op uint8) verdict {
	if v := rs.nextReceive(x); v != proceed {
		return v
	}
	if v := rs.scatter(x, x.pd, x.recv.segs, x.w.n); v != proceed {
		return v
	}
	if v := rs.req.carry(x.qp, x.w, x.qp.Mem, x.mem, x.w.n); v != proceed {
		return v
	}
	rs.received(x, sendCompletion(x.w), false).tmCQE(op, 0, nil)
	if !rs.req.commit(x.qp) {
		return halt
	}
	rs.req.acknowledged(x)
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
func (rs *responder) matchRendezvous(x *exchange, index uint16, head [tmhSize + rvhSize]byte) verdict {
	t := &x.srq.Run.Tags.List[index]
	room := uint64(binary.BigEndian.Uint32(t.Data[:]))
	n := uint64(binary.BigEndian.Uint32(head[28:]))
	if n > room || x.w.n > hca.MaxRendezvous {
		if v := rs.fillTag(x, index, min(x.w.n, room)); v != proceed {
			return v
		}
		rs.tmDone(x, sendCompletion(x.w), tmConsumedRendezvous, index, head[:], min(x.w.n, room))
		return rs.takeTag(x, index)
	}
	z := hca.Rendezvous{SRQ: x.srq, Index: index, Data: t.Data, Head: head}
	rs.tmDone(x, cqeNoPacket, tmConsumed, index, head[:], 0)
	v := rs.takeTag(x, index)
	if v == executed {
		x.peer.Run.Rendezvous = append(x.peer.Run.Rendezvous, z)
		rs.ready.push(x.peer)
	}
	return v
}
