package mlx5

import (
	"errors"
	"fmt"
)

// ErrSuspended means that the next completion is of a suspended QP: it can be taken, or is gone, when that has ended.
var ErrSuspended = errors.New("the next completion is of a qp that is being closed or reset")

// CQEError is a completion that no device could have written in good order: memory was overwritten, or the device and
// this package disagree about a format.
type CQEError struct {
	CQN    uint32
	Index  uint32 // consumer index of the entry
	QPN    uint32 // as it stands in the entry
	Opcode uint8
	Reason string
	Raw    uint64 // the last 8 bytes
}

func (e *CQEError) Error() string {
	return fmt.Sprintf("cq %#x: entry %d (opcode %d, qp %#x, last bytes %016x) names %s; destroy the qp",
		e.CQN, e.Index, e.Opcode, e.QPN, e.Raw, e.Reason)
}

// corrupt sets pending for an entry that makes no sense, and breaks the QP that it names, nil for none.
func (cq *CQ) corrupt(qp *QP, ci uint32, tail uint64, reason string) {
	if qp != nil {
		qp.broken.Store(true)
	}
	cq.pending = &CQEError{
		CQN: cq.num, Index: ci, QPN: uint32(tail>>32) & numberMask, Opcode: uint8(tail) >> 4, Raw: tail, Reason: reason,
	}
	cq.look()
}
