//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

const xrcSize = 16 // the segment that names the SRQ

// xrcReceiver finds the SRQ that a request names, which is where its receives, PD and memory come from. It reports
// whether the responder's domain has it.
func (x *exchange) xrcReceiver() bool {
	domain := x.peer.XRCD()
	srq := domain.Device.SRQ(x.w.srqn)
	if srq == nil || !srq.XRC || srq.XRCD != domain {
		x.srq = nil
		return false
	}
	x.srq, x.pd, x.mem = srq, srq.PD, srq.Mem
	return true
}

// receiveCQ is where receives of a QP complete: with XRC and tag matching that is their SRQ's.
func receiveCQ(qp *hca.QP, srq *hca.SRQ) (cq *hca.CQ, uidx uint32) {
	if srq != nil && srq.CQ != nil {
		return srq.CQ, srq.UIdx
	}
	return qp.RecvCQ, qp.RecvIdx
}
