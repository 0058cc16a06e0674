//go:build linux

package engine

import (
	"bytes"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// badControl is a control segment that does not fit its queue.
func (s *checks) badControl(qp *hca.QP, w *wqe, rule string) {
	s.violateQP(qp, rule, ", block %d: index %d, QPN 0x%x, opcode 0x%x, size %d", qp.Run.Tail&0xffff, w.idx, w.qpn,
		w.opcode, w.size)
}

// badWQE is a WQE that cannot be parsed, or not executed by its transport.
func (s *checks) badWQE(qp *hca.QP, w *wqe, rule string) {
	s.violateQP(qp, rule, " (%v), WQE %d: opcode 0x%x, %d bytes", qp.Type, w.idx, w.opcode, w.size)
}

// wqe comes before a WQE is executed, each time that it is tried.
func (s *checks) wqe(qp *hca.QP, w *wqe) {
	if !s.on() {
		return
	}
	r := &qp.Run
	if r.Strict.Hash != 0 {
		if r.Strict.Hash != hash(w.raw[:w.size]) {
			s.violateQP(qp, RuleWQEChanged, ", WQE %d changed while it was retried", w.idx)
		}
		r.Strict.Hash = 0
	}
	if r.Tail+w.blocks-r.Signaled > qp.SQ.Count {
		s.violateQP(qp, RuleUnsignaled, ": no signaled WQE in the last %d blocks", qp.SQ.Count)
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
	if qp.Mem.ReadV(now, spansOf(s.io.win[:0], &qp.SQ, tail, n)) != nil {
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
			s.violateQP(qp, RuleWQEChanged, ", block %d, byte %d", block, i&63)
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
