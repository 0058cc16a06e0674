//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// tracer fills records.
type tracer struct {
	hooks *Hooks
	rec   Record
}

func (t *tracer) trace(r Record) {
	r.Time = Clock()
	t.rec = r
	t.hooks.Trace(&t.rec)
}

// The methods below are called where Hooks.Trace is set.

func (t *tracer) traceState(qp *hca.QP, to hca.QPState) {
	t.trace(Record{Kind: KindState, QP: qp, PID: qp.Mem.PID, State: to})
}

func (t *tracer) traceDoorbell(qp *hca.QP, record uint16, blocks uint32) {
	t.trace(Record{Kind: KindDoorbell, QP: qp, PID: qp.Mem.PID, Index: uint32(record), N: uint64(blocks),
		BlueFlame: qp.Run.Strict.Blue})
}

func (t *tracer) traceArm(cq *hca.CQ, ci uint32, sn uint8, solicited bool) {
	t.trace(Record{Kind: KindArm, CQ: cq, PID: cq.Mem.PID, Index: ci, SN: sn, Solicited: solicited})
}

func (t *tracer) traceWQE(qp *hca.QP, w *wqe) {
	r := Record{Kind: KindWQE, QP: qp, PID: qp.Mem.PID, Index: uint32(w.idx), Opcode: w.opcode, N: w.n, Imm: w.imm,
		PeerQPN: qp.Attr.DestQPN, Raw: w.raw[:w.size]}
	if w.av != nil {
		r.PeerQPN = binary.BigEndian.Uint32(w.av[8:]) & 0xffffff
	}
	t.trace(r)
}

func (t *tracer) traceRecv(qp *hca.QP, srq *hca.SRQ, rcv recvEntry, n uint64) {
	t.trace(Record{Kind: KindRecv, QP: qp, SRQ: srq, PID: qp.Mem.PID, Index: uint32(rcv.counter), N: n})
}

func (t *tracer) traceRetry(qp *hca.QP, w *wqe, syndrome, tries uint8) {
	t.trace(Record{Kind: KindRetry, QP: qp, PID: qp.Mem.PID, Index: uint32(w.idx), Syndrome: syndrome,
		N: uint64(tries)})
}

func (t *tracer) traceCQE(p *pending) {
	i := p.img[:]
	r := Record{Kind: KindCQE, CQ: p.cq, QP: p.qp, PID: p.cq.Mem.PID, Index: p.at, Opcode: i[63] >> 4,
		WQEOpcode: i[56], WQE: binary.BigEndian.Uint16(i[60:]), Solicited: p.sol, Raw: i}
	if r.Opcode == cqeReqErr || r.Opcode == cqeRespErr {
		r.Syndrome, r.Vendor = i[55], i[54]
	} else {
		r.N, r.Imm = uint64(binary.BigEndian.Uint32(i[44:])), binary.BigEndian.Uint32(i[36:])
	}
	t.trace(r)
}

func (t *tracer) traceEvent(cq *hca.CQ) {
	t.trace(Record{Kind: KindEvent, CQ: cq, PID: cq.Mem.PID, Index: cq.Run.PI})
}
