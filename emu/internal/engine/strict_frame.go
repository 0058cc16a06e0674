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
	detail := ", WQE " + u(uint32(w.idx)) + ": "
	switch rule {
	case RuleEthSegment:
		detail += "TSO with a header of " + u(uint32(len(w.eth.header))) + " bytes, MSS " + u(uint32(w.eth.mss))
	case RuleEthInline:
		detail += u(uint32(len(w.eth.header))) + " bytes inline, the device wants " + u(uint32(least))
	case RuleFrameSize:
		detail += u(uint32(total)) + " bytes"
	default:
		s.violateQP(qp, RuleEthSegment, detail+"bits that no offload of this device has")
		return true
	}
	s.violateQP(qp, rule, detail)
	return false
}

// longFrame is a frame that its port does not send.
func (s *checks) longFrame(qp *hca.QP, w *wqe, n int, from *hca.Port) {
	s.violateQP(qp, RuleFrameSize, ", WQE "+u(uint32(w.idx))+": "+u(uint32(n))+" bytes, the port sends "+
		u(uint32(from.MaxFrame())))
}
