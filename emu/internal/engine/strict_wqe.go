//go:build linux

package engine

import (
	"bytes"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// badControl is a control segment that does not fit its queue.
func (s *checks) badControl(qp *hca.QP, w *wqe, rule string) {
	s.violateQP(qp, rule, ", block "+u(qp.Run.Tail&0xffff)+": index "+u(uint32(w.idx))+", QPN 0x"+hex(w.qpn)+
		", opcode 0x"+hex(uint32(w.opcode))+", size "+u(uint32(w.size)))
}

// badWQE is a WQE that cannot be parsed, or not executed by its transport.
func (s *checks) badWQE(qp *hca.QP, w *wqe, rule string) {
	s.violateQP(qp, rule, " ("+qp.Type.String()+"), WQE "+u(uint32(w.idx))+": opcode 0x"+hex(uint32(w.opcode))+
		", "+u(uint32(w.size))+" bytes")
}

// wqe comes before a WQE is executed, each time that it is tried.
func (s *checks) wqe(qp *hca.QP, w *wqe) {
	if !s.on() {
		return
	}
	r := &qp.Run
	if r.Strict.Hash != 0 {
		if r.Strict.Hash != hash(w.raw[:w.size]) {
			s.violateQP(qp, RuleWQEChanged, ", WQE "+u(uint32(w.idx))+" changed while it was retried")
		}
		r.Strict.Hash = 0
	}
	if r.Tail+w.blocks-r.Signaled > qp.SQ.Count {
		s.violateQP(qp, RuleUnsignaled, ": no signaled WQE in the last "+u(qp.SQ.Count)+" blocks")
		r.Signaled = r.Tail + w.blocks
	}
}

// retried keeps what a WQE looks like that is to be tried again.
func (s *checks) retried(qp *hca.QP, w *wqe) {
	if s.on() {
		qp.Run.Strict.Hash = hash(w.raw[:w.size])
	}
}

// unchanged reads the executed part of the window, from tail on, again before its completions are written.
func (s *checks) unchanged(qp *hca.QP, tail uint32) {
	w, r := s.win, &qp.Run
	if !s.on() || w.qp != qp || tail-w.from >= w.n || r.Tail == tail {
		return
	}
	from := tail - w.from
	n := min(r.Tail-tail, w.n-from)
	now := s.io.look[:n<<blockShift]
	if qp.Mem.ReadV(now, sendBlocks(s.io.win[:0], &qp.SQ, tail, n)) != nil {
		return
	}
	was := w.buf[from<<blockShift:][:len(now)]
	keepExecuted(qp, tail, was)
	if bytes.Equal(now, was) {
		return
	}
	for i := range now {
		if now[i] != was[i] {
			block := (tail + uint32(i)>>blockShift) & 0xffff
			s.violateQP(qp, RuleWQEChanged, ", block "+u(block)+", byte "+u(uint32(i)&63))
			return
		}
	}
}

// keepExecuted keeps blocks of the send queue, from tail on, as they were executed: the program may overwrite them.
func keepExecuted(qp *hca.QP, tail uint32, blocks []byte) {
	t := &qp.Run.Strict
	if size := int(qp.SQ.Count) << blockShift; len(t.Ring) != size {
		t.Ring = make([]byte, size)
	}
	n := copy(t.Ring[(tail&(qp.SQ.Count-1))<<blockShift:], blocks)
	copy(t.Ring, blocks[n:])
}
