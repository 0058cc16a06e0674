package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/mlx5"
)

// postSendDirect is PostSend on the direct data path.
// Preconditions: qp.sqMu is held, the QP is open and may send.
func (qp *QP) postSendDirect(wrs []SendWR) (int, error) {
	q := &qp.direct.SQ
	n := 0
	for {
		if n += q.Build(mlx5Sends(wrs[n:]), directOps[qp.typ&7], qp.cap.MaxInline); n == len(wrs) {
			break
		}
		if err := qp.buildDirect(&wrs[n]); err != nil {
			q.Ring()
			if err == ErrQueueFull {
				return n, qp.errSend.full
			}
			return n, &OpError{Op: "post send", Object: qp.name, Err: err, Detail: fmt.Sprintf("work request %d", n)}
		}
		n++
	}
	q.Ring()
	return n, nil
}

// directOps are the opcodes of each transport that have one remote address at most.
var directOps = [8]uint32{
	RC: 1<<OpWrite | 1<<OpWriteImm | 1<<OpSend | 1<<OpSendImm | 1<<OpRead | 1<<OpSendInv,
	UC: 1<<OpWrite | 1<<OpWriteImm | 1<<OpSend | 1<<OpSendImm,
}

// transportOps are all opcodes of each transport on the direct data path.
var transportOps = [8]uint32{
	RC: directOps[RC] | 1<<OpCompareSwap | 1<<OpFetchAdd | 1<<OpLocalInv,
	UC: directOps[UC] | 1<<OpLocalInv,
	UD: 1<<OpSend | 1<<OpSendImm,
}

// buildDirect builds any work request.
// Preconditions: qp.sqMu is held.
func (qp *QP) buildDirect(wr *SendWR) error {
	if wr.Opcode > 15 || transportOps[qp.typ&7]>>wr.Opcode&1 == 0 {
		return &ArgError{Arg: "Opcode", Got: wr.Opcode.String(), Want: "an opcode of a " + qp.typ.String() + " QP"}
	}
	q := &qp.direct.SQ
	flags := uint32(wr.Flags)
	if wr.Opcode == OpLocalInv {
		if !q.LocalInv(wr.ID, flags, wr.InvalidateRKey) {
			return ErrQueueFull
		}
		return nil
	}
	segs, inline := 0, 0
	switch {
	case wr.Inline != nil:
		if len(wr.SGEs) > 0 {
			return &ArgError{Arg: "Inline and SGEs", Got: "both set", Want: "one of them"}
		}
		if inline = len(wr.Inline); inline > qp.cap.MaxInline {
			return qp.tooLongInline(inline)
		}
		segs = mlx5.InlineSegs(inline)
	case len(wr.SGEs) > qp.cap.MaxSendSGE:
		return qp.tooManySGEs(len(wr.SGEs))
	case wr.Flags&Inline != 0:
		for k := range wr.SGEs {
			inline += int(wr.SGEs[k].Length)
		}
		if inline > qp.cap.MaxInline {
			return qp.tooLongInline(inline)
		}
		segs = mlx5.InlineSegs(inline)
	default:
		segs = len(wr.SGEs)
	}
	imm := wr.Imm
	switch wr.Opcode {
	case OpSend:
		imm = 0
	case OpSendInv:
		imm = wr.InvalidateRKey
	case OpWrite, OpRead:
		imm, segs = 0, segs+1
	case OpWriteImm:
		segs++
	case OpCompareSwap, OpFetchAdd:
		imm, segs = 0, segs+2
	}
	if qp.typ == UD {
		if err := qp.checkUD(wr.AH, wr.RemoteQPN); err != nil {
			return err
		}
		segs += mlx5.AVSize / 16
	} else if wr.AH != nil {
		return &ArgError{Arg: "AH", Got: "set", Want: "nil on a " + qp.typ.String() + " QP"}
	}
	if !q.Begin(uint32(wr.Opcode), flags, imm, segs) {
		return ErrQueueFull
	}
	switch wr.Opcode {
	case OpWrite, OpWriteImm, OpRead:
		q.Remote(wr.Remote.Addr, wr.Remote.RKey)
	case OpCompareSwap:
		q.Remote(wr.Remote.Addr, wr.Remote.RKey)
		q.Atomic(wr.Swap, wr.CompareAdd)
	case OpFetchAdd:
		q.Remote(wr.Remote.Addr, wr.Remote.RKey)
		q.Atomic(wr.CompareAdd, 0)
	}
	if qp.typ == UD && !qp.addressDirect(wr.AH, wr.RemoteQPN, wr.RemoteQKey) {
		return &OpError{Op: "use ah", Object: wr.AH.name, Err: ErrClosed}
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

// checkUD refuses what fillUD refuses.
func (qp *QP) checkUD(ah *AH, qpn uint32) error {
	switch {
	case ah == nil:
		return &ArgError{Arg: "AH", Got: "nil", Want: "the way to the peer, on a UD QP"}
	case ah.pd.root != qp.pd.root:
		return &ArgError{Arg: "AH", Got: "one of another PD", Want: "one of the QP's PD"}
	case qpn > 0xffffff:
		return &LimitError{What: "remote qpn", Asked: uint64(qpn), Limit: 0xffffff, Where: "a 24-bit field"}
	}
	return nil
}

// addressDirect copies the address vector of ah, which libmlx5 keeps until ah is closed.
func (qp *QP) addressDirect(ah *AH, qpn, qkey uint32) bool {
	if !ah.acquire() {
		return false
	}
	qp.direct.SQ.To(cptr(ah.av), qpn, qkey)
	ah.release()
	return true
}

// recvError names what stopped the posting of wrs[n].
// Preconditions: n < len(wrs).
func recvError(wrs []RecvWR, n, maxSGE int) error {
	if len(wrs[n].SGEs) > maxSGE {
		return &LimitError{What: "sge", Asked: uint64(len(wrs[n].SGEs)), Limit: uint64(maxSGE), Where: "the queue"}
	}
	return ErrQueueFull
}
