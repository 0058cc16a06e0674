package mlx5

import (
	"errors"
	"fmt"
)

// ErrSuspended is returned when the next completion belongs to a suspended QP. Poll again when the suspension has
// ended: the completion is then delivered or has been removed.
var ErrSuspended = errors.New("the next completion belongs to a qp that is being closed or reset")

// CQEError reports a CQE that cannot be decoded: its memory was overwritten, or the device uses a format that this
// package does not know.
type CQEError struct {
	CQN    uint32
	Index  uint32 // the consumer index at the entry
	QPN    uint32 // as found in the entry
	Opcode uint8
	Reason string
	Raw    uint64 // the last 8 bytes of the entry
}

func (e *CQEError) Error() string {
	return fmt.Sprintf("cq %#x: entry %d (opcode %d, qp %#x, last bytes %016x) names %s; destroy the qp",
		e.CQN, e.Index, e.Opcode, e.QPN, e.Raw, e.Reason)
}

// corrupt records an error for an entry that cannot be decoded and marks the QP that it names, if any, as broken.
func (cq *CQ) corrupt(qp *QP, ci uint32, tail uint64, reason string) {
	if qp != nil {
		qp.state.Or(isBroken)
	}
	cq.pending = &CQEError{
		CQN: cq.num, Index: ci, QPN: uint32(tail>>32) & numberMask, Opcode: uint8(tail) >> 4, Raw: tail, Reason: reason,
	}
	cq.look()
}
