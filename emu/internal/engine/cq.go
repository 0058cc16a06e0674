//go:build linux

package engine

import (
	"encoding/binary"
	"slices"

	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// number assigns the completions of the batch their places in the rings.
func (cs *completions) number() {
	b := cs.b
	for i := range b.cqes {
		cs.place(&b.cqes[i])
	}
	cs.pack()
}

func (cs *completions) place(p *pending) {
	cq := p.cq
	r := &cq.Run
	if r.Dead || r.Broken || cq.Context.Dead {
		p.drop = true
		return
	}
	if r.Held {
		p.drop = true
		cs.held = append(cs.held, *p)
		return
	}
	if h := cs.hooks.AtCQE; h != nil {
		switch f, d := h(cq, p.qp); f {
		case fault.CQELost:
			p.drop = true
			return
		case fault.WrongOwner:
			p.swap = true
		case fault.CQEDelayed:
			p.drop = true
			r.Held = true
			cs.held = append(cs.held, *p)
			cs.timers.after(int64(d)*1000, nil, cq)
			return
		case fault.CQError:
			p.drop = true
			cs.breakCQ(cq)
			return
		}
	}
	if r.PI-r.CI >= cq.Entries && !cq.IgnoreOverrun && !cs.roomy(cq) {
		p.drop = true
		cs.strict.violateCQ(cq, RuleCQOverrun, "%d entries are taken: poll more often or create it larger", cq.Entries)
		cs.breakCQ(cq)
		return
	}
	p.at = r.PI
	p.img[63] |= ownerBit(r.PI, cq.Entries)
	if p.swap {
		p.img[63] ^= 1
	}
	r.PI++
}

func (cs *completions) unnumber() {
	b := cs.b
	for i := range b.cqes {
		if p := &b.cqes[i]; !p.drop {
			p.cq.Run.PI--
			p.img[63] &^= 1
		}
	}
}

// roomy reads the consumer index and reports whether there is room.
func (cs *completions) roomy(cq *hca.CQ) bool {
	b := cs.io.tmp[:4]
	if cq.Mem.Read(cq.DB, b) != nil {
		return true // the write will tell
	}
	cs.consumer(cq, binary.BigEndian.Uint32(b))
	return cq.Run.PI-cq.Run.CI < cq.Entries
}

// consumer follows a consumer index of 24 bits.
func (cs *completions) consumer(cq *hca.CQ, v uint32) {
	r := &cq.Run
	behind := (r.PI - v) & 0xffffff
	if behind > 0xffffff/2 {
		cs.strict.violateCQ(cq, RuleCQConsumer, "consumer index %d is beyond the producer's %d", v, r.PI&0xffffff)
		behind = 0
	}
	r.CI = r.PI - behind
	cs.strict.consumed(cq)
	const far = 1 << 30 // half of what a comparison of indices bears
	if r.PI-r.Told > far {
		r.Told = r.PI - far
	}
	if r.PI-r.LastSol > far {
		r.LastSol = r.PI - far
	}
}

// breakCQ is a CQ error: there are no completions after those of the batch.
func (cs *completions) breakCQ(cq *hca.CQ) {
	cq.Run.Broken = true
	cs.broken = append(cs.broken, cq)
}

// tellBroken reports CQ errors when the completions before them are in memory. The QPs that complete there cannot go
// on.
func (cs *completions) tellBroken() {
	for len(cs.broken) > 0 {
		cq := cs.broken[0]
		cs.broken = append(cs.broken[:0], cs.broken[1:]...)
		cq.Event(hca.EventCQErr)
		cq.Context.Device.EachQP(func(qp *hca.QP) {
			if (qp.SendCQ == cq || qp.RecvCQ == cq) && qp.State != hca.Reset && qp.State != hca.Err {
				qp.Event(hca.EventQPFatal)
				cs.states.toErr(qp)
			}
		})
	}
}

// lostCQ is a CQ whose ring cannot be written.
func (cs *completions) lostCQ(cq *hca.CQ, err error) {
	if err == guest.ErrFault && !cq.Run.Dead {
		cs.strict.violateCQ(cq, RuleRingUnmapped, "its ring cannot be written")
	}
	cq.Run.Dead = true
}

// forgetQP has completions that are held be no QP's.
func (cs *completions) forgetQP(qp *hca.QP) {
	for i := range cs.held {
		if cs.held[i].qp == qp {
			cs.held[i].qp = nil
		}
	}
}

// forget drops what was to happen to a CQ.
func (cs *completions) forget(cq *hca.CQ) {
	cs.held = slices.DeleteFunc(cs.held, func(p pending) bool { return p.cq == cq })
	cs.toNotify, cs.broken = without(cs.toNotify, cq), without(cs.broken, cq)
}

// cqe appends a completion with the fields that all have.
func (cs *completions) cqe(cq *hca.CQ, qp *hca.QP, opcode uint8, uidx uint32, top uint8, counter uint16) *pending {
	b := cs.b
	if len(b.cqes) == cap(b.cqes) { // cannot be: a batch ends before
		b.cqes = append(b.cqes, pending{})
	} else {
		b.cqes = b.cqes[:len(b.cqes)+1]
	}
	p := &b.cqes[len(b.cqes)-1]
	*p = pending{cq: cq, qp: qp, wide: cq.Pad && cq.CQESize == 128}
	i := p.img[:]
	binary.BigEndian.PutUint32(i[32:], uidx&0xffffff)
	binary.BigEndian.PutUint64(i[48:], Clock())
	binary.BigEndian.PutUint32(i[56:], uint32(top)<<24|qp.Num)
	binary.BigEndian.PutUint16(i[60:], counter)
	i[63] = opcode << 4
	return p
}
