//go:build linux

package engine

import "github.com/pureverbs/pureverbs/internal/emu/hca"

// frame executes a WQE of RAW_PACKET.
func (e *Engine) frame(qp *hca.QP, w *wqe) verdict {
	list, bad := e.localList(qp, w, e.src[:0], 0)
	e.src = list
	if bad == 0 && (w.n > maxFrame && w.opcode != opTSO || w.n < 14) {
		bad = synLocalLength
	}
	if bad != 0 {
		if e.b.wqes > 0 {
			return alone
		}
		e.failWQE(qp, w, bad)
		return halt
	}
	e.finish(qp, w, w.n, 0)
	return taken
}
