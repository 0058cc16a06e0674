//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// number assigns the completions of the batch their places in the rings.
func (e *Engine) number() {
	b := &e.b
	for i := range b.cqes {
		e.place(&b.cqes[i])
	}
	e.pack()
}

func (e *Engine) place(p *pending) {
	cq := p.cq
	r := &cq.Run
	if r.Dead || r.Broken || cq.Context.Dead {
		p.drop = true
		return
	}
	if r.Held {
		p.drop = true
		e.held = append(e.held, *p)
		return
	}
	if h := e.Hooks.AtCQE; h != nil {
		switch f, d := h(cq, p.qp); f {
		case FaultLost:
			p.drop = true
			return
		case FaultOwner:
			p.swap = true
		case FaultDelay:
			p.drop = true
			r.Held = true
			e.held = append(e.held, *p)
			e.after(int64(d)*1000, nil, cq)
			return
		case FaultCQError:
			p.drop = true
			e.breakCQ(cq)
			return
		}
	}
	if r.PI-r.CI >= cq.Entries && !cq.IgnoreOverrun && !e.roomy(cq) {
		p.drop = true
		e.strict.overrun(cq)
		e.breakCQ(cq)
		return
	}
	p.at = r.PI
	p.img[63] |= ownerBit(r.PI, cq.Entries)
	if p.swap {
		p.img[63] ^= 1
	}
	r.PI++
}

func (e *Engine) unnumber() {
	b := &e.b
	for i := range b.cqes {
		if p := &b.cqes[i]; !p.drop {
			p.cq.Run.PI--
			p.img[63] &^= 1
		}
	}
}

// roomy reads the consumer index and reports whether there is room.
func (e *Engine) roomy(cq *hca.CQ) bool {
	b := e.io.tmp[:4]
	if cq.Mem.Read(cq.DB, b) != nil {
		return true // the write will tell
	}
	e.consumer(cq, binary.BigEndian.Uint32(b))
	return cq.Run.PI-cq.Run.CI < cq.Entries
}

// consumer follows a consumer index of 24 bits.
func (e *Engine) consumer(cq *hca.CQ, v uint32) {
	r := &cq.Run
	behind := (r.PI - v) & 0xffffff
	if behind > 0xffffff/2 {
		e.strict.consumer(cq, v)
		behind = 0
	}
	r.CI = r.PI - behind
	e.strict.consumed(cq)
	const far = 1 << 30 // half of what a comparison of indices bears
	if r.PI-r.Told > far {
		r.Told = r.PI - far
	}
	if r.PI-r.LastSol > far {
		r.LastSol = r.PI - far
	}
}

// breakCQ is a CQ error: there are no completions after those of the batch.
func (e *Engine) breakCQ(cq *hca.CQ) {
	cq.Run.Broken = true
	e.broken = append(e.broken, cq)
}

// tellBroken reports CQ errors when the completions before them are in memory. The QPs that complete there cannot go
// on.
func (e *Engine) tellBroken() {
	for len(e.broken) > 0 {
		cq := e.broken[0]
		e.broken = append(e.broken[:0], e.broken[1:]...)
		cq.Event(hca.EventCQErr)
		cq.Context.Device.EachQP(func(qp *hca.QP) {
			if (qp.SendCQ == cq || qp.RecvCQ == cq) && qp.State != hca.Reset && qp.State != hca.Err {
				qp.Event(hca.EventQPFatal)
				e.toErr(qp)
			}
		})
	}
}

// lostCQ is a CQ whose ring cannot be written.
func (e *Engine) lostCQ(cq *hca.CQ, err error) {
	if err == guest.ErrFault && !cq.Run.Dead {
		e.strict.unwritable(cq)
	}
	cq.Run.Dead = true
}
