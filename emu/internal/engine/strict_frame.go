//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// ethernet reports whether an Ethernet segment can be executed.
func (s *checks) ethernet(qp *hca.QP, w *wqe) bool {
	header, least := len(w.eth.header), qp.Context.Device.Config.MinInline
	switch total := w.n + uint64(header); {
	case w.opcode == opTSO && (w.eth.mss == 0 || header < etherHeader || w.eth.insert):
		s.violateQP(qp, RuleEthSegment, ", WQE %d: TSO with a header of %d bytes, MSS %d", w.idx, header, w.eth.mss)
		return false
	case w.opcode != opTSO && header < least:
		s.violateQP(qp, RuleEthInline, ", WQE %d: %d bytes inline, the device wants %d", w.idx, header, least)
		return false
	case total < etherHeader:
		s.violateQP(qp, RuleFrameSize, ", WQE %d: %d bytes", w.idx, total)
		return false
	case w.eth.odd:
		s.violateQP(qp, RuleEthSegment, ", WQE %d: bits that no offload of this device has", w.idx)
	}
	return true
}

// longFrame is a frame that its port does not send.
func (s *checks) longFrame(qp *hca.QP, w *wqe, n int, from *hca.Port) {
	s.violateQP(qp, RuleFrameSize, ", WQE %d: %d bytes, the port sends %d", w.idx, n, from.MaxFrame())
}
