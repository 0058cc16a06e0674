package ibv

import (
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/mlx5"
)

// postDirect posts on the rings of an mlx5 device.
// Preconditions: qp.sqMu is held, the QP is open and may send.
func (qp *QP) postDirect(wrs []SendWR, whole bool) (int, error) {
	if qp.direct.Broken() {
		return 0, qp.errSend.broken
	}
	q := &qp.direct.SQ
	before := q.Mark()
	n := 0
	var err error
	for {
		if n += q.Build(mlx5Sends(wrs[n:]), qp.plain, qp.cap.MaxInline); n == len(wrs) {
			break
		}
		if err = qp.buildDirect(&wrs[n]); err != nil {
			break
		}
		n++
	}
	if err == ErrQueueFull {
		err = qp.directFull()
		if whole {
			if bad := qp.checkAll(wrs, n); bad != nil {
				q.Rollback(before)
				return 0, bad
			}
		}
	} else if err != nil {
		err = qp.badSend(n, err)
		if whole {
			q.Rollback(before)
			return 0, err
		}
	}
	q.Ring()
	return n, err
}

// directFull is the error of a full queue.
func (qp *QP) directFull() error {
	if !qp.direct.SQ.Signaled() {
		return qp.errSend.unsignaled
	}
	return qp.errSend.full
}

// buildDirect builds any work request.
// Preconditions: qp.sqMu is held.
func (qp *QP) buildDirect(wr *SendWR) error {
	inline, err := qp.checkSend(wr)
	if err != nil {
		return err
	}
	q := &qp.direct.SQ
	op, flags := uint32(wr.Opcode), uint32(wr.Flags)
	segs, imm := len(wr.SGEs), uint32(0)
	if inline > 0 || wr.Flags&Inline != 0 {
		segs = mlx5.InlineSegs(inline)
	}
	switch wr.Opcode {
	case OpLocalInv:
		if !q.LocalInv(wr.ID, flags, wr.InvalidateRKey) {
			return ErrQueueFull
		}
		return nil
	case OpSendImm, OpWriteImm:
		imm = wr.Imm
	case OpSendInv:
		imm = wr.InvalidateRKey
	case OpCompareSwap, OpFetchAdd:
		segs++
	}
	remote := withRemote>>wr.Opcode&1 != 0
	if remote {
		segs++
	}
	if qp.typ == UD {
		segs += mlx5.AVSize / 16
	}
	if !q.Begin(op, flags, imm, segs) {
		return ErrQueueFull
	}
	if remote {
		q.Remote(wr.Remote.Addr, wr.Remote.RKey)
	}
	switch {
	case wr.Opcode == OpCompareSwap:
		q.Atomic(wr.Swap, wr.CompareAdd)
	case wr.Opcode == OpFetchAdd:
		q.Atomic(wr.CompareAdd, 0)
	case qp.typ == UD && !qp.addressDirect(wr.AH, wr.RemoteQPN, wr.RemoteQKey):
		return wr.AH.errClosed()
	}
	switch {
	case wr.Inline != nil:
		q.Inline(wr.Inline)
	case wr.Flags&Inline != 0:
		q.InlineFrom(mlx5SGEs(wr.SGEs), inline)
	default:
		for k := range wr.SGEs {
			q.Data((*mlx5.SGE)(&wr.SGEs[k]))
		}
	}
	q.Commit(wr.ID)
	return nil
}

// addressDirect copies the address vector of ah, which libmlx5 keeps until ah is closed.
func (qp *QP) addressDirect(ah *AH, qpn, qkey uint32) bool {
	if !ah.acquire() {
		return false
	}
	qp.direct.SQ.To(cmem.Pointer(ah.av), qpn, qkey)
	ah.release()
	return true
}
