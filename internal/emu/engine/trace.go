//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

func (e *Engine) trace(r Record) {
	r.Time = Clock()
	e.rec = r
	e.Hooks.Trace(&e.rec)
}

func (e *Engine) traceWQE(qp *hca.QP, w *wqe) {
	r := Record{Kind: KindWQE, QP: qp, PID: qp.Mem.PID, Index: uint32(w.idx), Opcode: w.opcode, DS: uint8(w.size / 16), Flags: w.flags, N: w.n, SGEs: w.nsge,
		Inline: w.inline, Imm: w.imm, Remote: w.remote, RKey: w.rkey, SRQN: w.srqn, PeerQPN: qp.Attr.DestQPN, Raw: w.raw[:w.size]}
	if w.av != nil {
		r.PeerQPN = binary.BigEndian.Uint32(w.av[8:]) & 0xffffff
	}
	e.trace(r)
}

func (e *Engine) traceCQE(p *pending) {
	i := p.img[:]
	r := Record{Kind: KindCQE, CQ: p.cq, QP: p.qp, PID: p.cq.Mem.PID, Index: p.at, Opcode: i[63] >> 4, WQEOpcode: i[56], WQE: binary.BigEndian.Uint16(i[60:]), Solicited: p.sol, Raw: i}
	if r.Opcode == cqeReqErr || r.Opcode == cqeRespErr {
		r.Syndrome, r.Vendor = i[55], i[54]
	} else {
		r.N, r.Imm = uint64(binary.BigEndian.Uint32(i[44:])), binary.BigEndian.Uint32(i[36:])
	}
	e.trace(r)
}
