//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// rendezvous works on what a QP has to read, before its own work requests. It reports whether nothing of it is left.
func (e *Engine) rendezvous(qp *hca.QP) bool {
	r := &qp.Run
	for len(r.Rendezvous) > 0 {
		z := &r.Rendezvous[0]
		w := &e.sends.w
		*w = wqe{own: true, idx: uint16(r.Tail), qpn: qp.Num, nsge: 1}
		e.sends.win.forget()
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
		e.batches.begin(qp)
		switch v := e.connected(qp, w); {
		case v == halt:
			return false
		case v == alone: // somebody is gone
			e.ready.push(qp)
			return false
		case v == broken:
			e.req.badMemory(qp, badTarget)
			return false
		}
		if z.Read {
			e.batches.commit()
			r.Rendezvous = append(r.Rendezvous[:0], r.Rendezvous[1:]...)
			continue
		}
		p := e.comps.cqe(z.SRQ.CQ, qp, cqeRespSend, z.SRQ.UIdx, 0, 0).tmCQE(tmExpected, z.Index, nil)
		put32(p.img[24:], qp.Attr.DestQPN)
		put32(p.img[44:], uint32(w.n))
		if side := e.batches.commit(); side != okSide {
			e.batches.undo()
			e.req.badMemory(qp, side)
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
			e.comps.cqe(z.SRQ.CQ, qp, cqeRespSend, z.SRQ.UIdx, 0, 0).tmCQE(tmCanceled, z.Index, z.Head[:])
		}
		r.Rendezvous = append(r.Rendezvous[:0], r.Rendezvous[1:]...)
	}
	return true
}
