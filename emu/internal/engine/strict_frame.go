//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// ethernet reports whether an Ethernet segment can be executed.
func (s *checks) ethernet(qp *hca.QP, w *wqe) bool {
	total, least := w.n+uint64(len(w.eth.header)), qp.Context.Device.Config.MinInline
	rule := ""
	switch {
	case w.opcode == opTSO && (w.eth.mss == 0 || len(w.eth.header) < etherHeader || w.eth.insert):
		rule = RuleEthSegment
	case w.opcode != opTSO && len(w.eth.header) < least:
		rule = RuleEthInline
	case total < etherHeader:
		rule = RuleFrameSize
	}
	if rule == "" && !w.eth.odd {
		return true
	}
	switch rule {
	case RuleEthSegment:
		s.violateQP(qp, rule, ", WQE %d: TSO with a header of %d bytes, MSS %d", w.idx, len(w.eth.header), w.eth.mss)
	case RuleEthInline:
		s.violateQP(qp, rule, ", WQE %d: %d bytes inline, the device wants %d", w.idx, len(w.eth.header), least)
	case RuleFrameSize:
		s.violateQP(qp, rule, ", WQE %d: %d bytes", w.idx, total)
	default:
		s.violateQP(qp, RuleEthSegment, ", WQE %d: bits that no offload of this device has", w.idx)
		return true
	}
	return false
}

// longFrame is a frame that its port does not send.
func (s *checks) longFrame(qp *hca.QP, w *wqe, n int, from *hca.Port) {
	s.violateQP(qp, RuleFrameSize, ", WQE %d: %d bytes, the port sends %d", w.idx, n, from.MaxFrame())
}
