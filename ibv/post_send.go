package ibv

import (
	"fmt"
)

// sendErrors are what posting returns over and over, made once.
type sendErrors struct{ gone, full, broken, batch error }

func (e *sendErrors) init(qp *QP) {
	e.gone = &OpError{Op: "post send", Object: qp.name, Err: goneOf(qp.send.path)}
	e.full = &OpError{Op: "post send", Object: qp.name, Err: ErrQueueFull}
	e.batch = &OpError{Op: "post send", Object: qp.name, Err: ErrBatchOpen}
	e.broken = &OpError{Op: "post send", Object: qp.name, Err: ErrBroken}
}

// goneOf is why there is nothing to post to.
func goneOf(path DataPath) error {
	if path == DataPathRaw {
		return ErrRaw
	}
	return ErrClosed
}

// PostSend posts work requests in order, with one doorbell for as many as the
// provider takes at once. It returns how many were accepted; when those are not
// all, the error says what is wrong with wrs[n]: ErrQueueFull when completions
// have to be polled first. What was accepted will complete whatever becomes of
// the rest. It does not allocate.
//
// C: ibv_post_send(3).
func (qp *QP) PostSend(wrs []SendWR) (int, error) {
	qp.sqMu.Lock()
	if d := qp.direct; d != nil && len(wrs) == 1 && qp.loadState() == StateRTS && !d.Broken() && !(qp.sqMu.off && qp.batchID.Load() != 0) &&
		d.SQ.PostOne(mlx5Send(&wrs[0]), directOps[qp.typ&7], qp.cap.MaxInline) {
		qp.sqMu.Unlock()
		return 1, nil
	}
	if qp.sq == nil && qp.direct == nil {
		qp.sqMu.Unlock()
		return 0, qp.errSend.gone
	}
	if s := qp.loadState(); s < StateRTS || s == StateUnknown {
		qp.sqMu.Unlock()
		return 0, qp.sendState(s)
	}
	if qp.sqMu.off && qp.batchID.Load() != 0 {
		return 0, qp.errSend.batch
	}
	if qp.direct != nil {
		if qp.direct.Broken() {
			qp.sqMu.Unlock()
			return 0, qp.errSend.broken
		}
		n, err := qp.postSendDirect(wrs)
		qp.sqMu.Unlock()
		return n, err
	}
	done := 0
	for done < len(wrs) {
		n := min(len(wrs)-done, qp.sq.Len())
		var bad error
		for i := range n {
			if bad = qp.fill(i, &wrs[done+i]); bad != nil {
				n = i
				break
			}
		}
		took, errno := n, 0
		if n > 0 {
			took, errno = qp.sq.Post(n)
		}
		if qp.typ == UD {
			for i := range n {
				wrs[done+i].AH.release()
			}
		}
		done += took
		if errno != 0 {
			qp.sqMu.Unlock()
			return done, qp.sendErrno(errno)
		}
		if bad != nil {
			qp.sqMu.Unlock()
			return done, &OpError{Op: "post send", Object: qp.name, Err: bad, Detail: fmt.Sprintf("work request %d", done)}
		}
	}
	qp.sqMu.Unlock()
	return done, nil
}

// fill writes wr into slot i of the chain, and keeps its AH until release.
// Preconditions: qp.sqMu is held, the QP is open.
func (qp *QP) fill(i int, wr *SendWR) error {
	flags := uint32(wr.Flags)
	if wr.Inline != nil {
		flags |= uint32(Inline)
	}
	w := qp.sq.Slot(i, wr.ID, uint32(wr.Opcode), flags)
	switch wr.Opcode {
	case OpSend:
	case OpSendImm:
		w.SetImm(wr.Imm)
	case OpWrite, OpRead:
		w.SetRDMA(wr.Remote.Addr, wr.Remote.RKey)
	case OpWriteImm:
		w.SetRDMA(wr.Remote.Addr, wr.Remote.RKey)
		w.SetImm(wr.Imm)
	case OpCompareSwap, OpFetchAdd:
		w.SetAtomic(wr.Remote.Addr, wr.CompareAdd, wr.Swap, wr.Remote.RKey)
	case OpSendInv, OpLocalInv:
		if qp.pd.ctx.legacy {
			return qp.noInvalidate()
		}
		w.SetInvalidateRKey(wr.InvalidateRKey)
	default:
		return &ArgError{Arg: "Opcode", Got: wr.Opcode.String(), Want: "an opcode of classic verbs"}
	}
	if flags&uint32(Inline) == 0 && len(wr.SGEs) <= qp.cap.MaxSendSGE {
		qp.fillSGEs(i, wr.SGEs)
	} else if err := qp.fillData(i, wr, flags); err != nil {
		return err
	}
	if qp.typ == UD {
		return qp.fillUD(i, wr.AH, wr.RemoteQPN, wr.RemoteQKey)
	}
	if wr.AH != nil {
		return &ArgError{Arg: "AH", Got: "set", Want: "nil on a " + qp.typ.String() + " QP"}
	}
	return nil
}

func (qp *QP) fillData(i int, wr *SendWR, flags uint32) error {
	if wr.Inline != nil {
		if len(wr.SGEs) > 0 {
			return &ArgError{Arg: "Inline and SGEs", Got: "both set", Want: "one of them"}
		}
		return qp.fillInline(i, wr.Inline)
	}
	if len(wr.SGEs) > qp.cap.MaxSendSGE {
		return qp.tooManySGEs(len(wr.SGEs))
	}
	if flags&uint32(Inline) != 0 {
		total := 0
		for k := range wr.SGEs {
			total += int(wr.SGEs[k].Length)
		}
		if total > qp.cap.MaxInline {
			return qp.tooLongInline(total)
		}
	}
	qp.fillSGEs(i, wr.SGEs)
	return nil
}

func (qp *QP) fillSGEs(i int, sges []SGE) {
	list := qp.sq.SGEs(i, len(sges))
	for k := range list {
		s, to := &sges[k], &list[k]
		to.Addr, to.Length, to.LKey = s.Addr, s.Length, s.LKey
	}
}

func (qp *QP) fillInline(i int, data []byte) error {
	if len(data) > qp.cap.MaxInline {
		return qp.tooLongInline(len(data))
	}
	qp.sq.Inline(i, data)
	return nil
}

// fillUD sets the peer of slot i and acquires ah.
func (qp *QP) fillUD(i int, ah *AH, qpn, qkey uint32) error {
	switch {
	case ah == nil:
		return &ArgError{Arg: "AH", Got: "nil", Want: "the way to the peer, on a UD QP"}
	case ah.pd.root != qp.pd.root:
		return &ArgError{Arg: "AH", Got: "one of another PD", Want: "one of the QP's PD"}
	case qpn > 0xffffff:
		return &LimitError{What: "remote qpn", Asked: uint64(qpn), Limit: 0xffffff, Where: "a 24-bit field"}
	case !ah.acquire():
		return &OpError{Op: "use ah", Object: ah.name, Err: ErrClosed}
	}
	qp.sq.Wr(i).SetUD(ah.handle, qpn, qkey)
	return nil
}

func (qp *QP) noInvalidate() error {
	return &UnsupportedError{Feature: "invalidating a key", Need: "libibverbs of rdma-core or MLNX_OFED 5", Have: "MLNX_OFED 4"}
}

func (qp *QP) tooManySGEs(n int) error {
	return &LimitError{What: "sge", Asked: uint64(n), Limit: uint64(qp.cap.MaxSendSGE), Where: "qp " + qp.name + " (QPOptions.MaxSendSGE)"}
}

func (qp *QP) tooLongInline(n int) error {
	return &LimitError{What: "inline bytes", Asked: uint64(n), Limit: uint64(qp.cap.MaxInline), Where: "qp " + qp.name + " (QPOptions.MaxInline)"}
}

// sendErrno names what a provider's post_send refused.
func (qp *QP) sendErrno(e int) error {
	err := errnoError(e)
	if isQueueFull(err) {
		return qp.errSend.full
	}
	return &OpError{Op: "post send", Object: qp.name, Err: err, Detail: "the provider refused the work request"}
}

func (qp *QP) sendState(s QPState) error {
	return &OpError{Op: "post send", Object: qp.name, Err: &StateError{Op: "post send", State: s, Need: "RTS: Connect, or Modify to RTS"}}
}

// StateError is an operation in a state of the QP that does not allow it.
type StateError struct {
	Op    string
	State QPState
	Need  string // the state to be in, and how to get there
}

func (e *StateError) Error() string {
	return fmt.Sprintf("the qp is in state %v; %s needs %s", e.State, e.Op, e.Need)
}

// Unwrap makes a StateError an EINVAL, as the C call would have answered.
func (e *StateError) Unwrap() error { return errInvalid }
