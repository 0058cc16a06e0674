package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/ops"
)

const opPostRecv = "post recv"

// recvErrors are the frequent errors of posting, allocated once.
type recvErrors struct{ gone, full, srq error }

func (e *recvErrors) init(qp *QP) {
	all := &[...]OpError{ // one allocation
		{Op: opPostRecv, Object: qp.name, Err: qp.goneError()},
		{Op: opPostRecv, Object: qp.name, Err: ErrQueueFull},
		{Op: opPostRecv, Object: qp.name, Err: errInvalid, Detail: "the qp receives from an SRQ: post there"},
	}
	switch srq := &all[2]; qp.typ {
	case XRCSend:
		srq.Detail = "an XRCSend QP receives nothing: post to an XRC SRQ"
	case DCI:
		srq.Err, srq.Detail = errNoRecv, ""
	}
	e.gone, e.full, e.srq = &all[0], &all[1], &all[2]
}

// PostRecv posts receive buffers, from the state INIT on. It returns how many
// were accepted; if those are not all, the error is about wrs[n]: ErrQueueFull when completions have to be polled
// first. It does not allocate.
//
// C: ibv_post_recv(3).
func (qp *QP) PostRecv(wrs []RecvWR) (int, error) {
	wrs = wrs[:len(wrs):len(wrs)] // a capacity would be one more word to keep on the stack
	qp.rq.mu.Lock()
	n := 0
	if d := qp.sq.direct; d != nil && qp.rq.receiving && d.Receives() {
		if n = d.RQ.Run(firstRecv(wrs), len(wrs)); n == len(wrs) && n > 0 {
			qp.rq.mu.Unlock()
			return n, nil
		}
	}
	return qp.rq.postRecvRest(wrs, n)
}

// mayReceive reports whether a QP in state s takes receives.
func mayReceive(s QPState) bool { return s-StateInit < StateUnknown-StateInit }

// postRecvRest posts what the direct data path does not take in one run. Of that it has posted n.
// Preconditions: qp.rq.mu is held, and is given back.
func (rq *receiver) postRecvRest(wrs []RecvWR, n int) (int, error) {
	qp := rq.qp
	var err, bad error
	if n == 0 && qp.inCQE.receives && qp.dev.elsewhere.any.Load() {
		var most int
		most, bad = qp.dev.takable(wrs, false)
		wrs = wrs[:most]
	}
	switch {
	case qp.srq != nil, qp.typ == XRCSend, qp.typ == DCI:
		err = rq.errs.srq
	case rq.chain == nil && qp.sq.direct == nil:
		err = rq.errs.gone
	case n == 0 && !mayReceive(qp.loadState()):
		err = rq.recvState(qp.loadState())
	case qp.sq.direct == nil:
		if n, err = postRecv(rq.chain, qp.cap.MaxRecvSGE, wrs); err != nil {
			err = rq.recvFailed(n, err)
		}
	case n == 0 && qp.sq.direct.Broken():
		err = rq.recvFailed(0, ErrBroken)
	case rq.frames != nil:
		if n = rq.frames.Post(mlx5Recvs(wrs)); n < len(wrs) {
			err = rq.recvFailed(n, recvError(&wrs[n], qp.cap.MaxRecvSGE))
		}
	default:
		rq.receiving = true
		if n += qp.sq.direct.RQ.Post(mlx5Recvs(wrs[n:])); n < len(wrs) {
			err = rq.recvFailed(n, recvError(&wrs[n], qp.cap.MaxRecvSGE))
		}
	}
	if err == nil && bad != nil {
		err = rq.recvFailed(n, bad)
	}
	rq.mu.Unlock()
	return n, err
}

func (rq *receiver) recvState(s QPState) error {
	err := &StateError{Op: opPostRecv, State: s, Need: "INIT or later: Init, Connect, or Modify to INIT"}
	return &OpError{Op: opPostRecv, Object: rq.qp.name, Err: err}
}

// recvFailed returns the error that stopped the posting of work request n.
func (rq *receiver) recvFailed(n int, err error) error {
	if err == ErrQueueFull {
		return rq.errs.full
	}
	return &OpError{Op: opPostRecv, Object: rq.qp.name, Err: err, Detail: fmt.Sprintf("work request %d", n)}
}

// checkRecv reports what is wrong with a receive, whatever queue and engine it is for.
func checkRecv(wr *RecvWR, maxSGE int) error {
	if len(wr.SGEs) > maxSGE {
		return &LimitError{What: "sge", Asked: uint64(len(wr.SGEs)), Limit: uint64(maxSGE), Where: "the queue"}
	}
	for i := range wr.SGEs {
		if s := &wr.SGEs[i]; s.Length > MaxSGELength {
			return s.tooLong(i)
		}
	}
	return nil
}

// recvError names what stopped the posting of wr on the direct data path.
func recvError(wr *RecvWR, maxSGE int) error {
	if err := checkRecv(wr, maxSGE); err != nil {
		return err
	}
	return ErrQueueFull
}

// postRecv posts wrs through a chain.
// Preconditions: the chain's lock is held.
func postRecv(chain *ops.RecvChain, maxSGE int, wrs []RecvWR) (int, error) {
	done := 0
	for done < len(wrs) {
		n := min(len(wrs)-done, chain.Len())
		var bad error
		for i := range n {
			wr := &wrs[done+i]
			if bad = checkRecv(wr, maxSGE); bad != nil {
				n = i
				break
			}
			fillRecv(chain, i, wr)
		}
		if n > 0 {
			took, errno := chain.Post(n)
			done += took
			if errno != 0 {
				err := errnoError(errno)
				if isQueueFull(err) {
					err = ErrQueueFull
				}
				return done, err
			}
		}
		if bad != nil {
			return done, bad
		}
	}
	return done, nil
}

// fillRecv makes slot i of a chain the receive wr. SGEs of no bytes are left out: libmlx5 writes them to the ring of an
// SRQ, where they are 2 GiB to the device (rdma-core v64.0, providers/mlx5/srq.c:297).
func fillRecv(chain *ops.RecvChain, i int, wr *RecvWR) {
	n := 0
	for k := range wr.SGEs {
		if wr.SGEs[k].Length > 0 {
			n++
		}
	}
	list := chain.Slot(i, wr.ID, n)
	if n == len(wr.SGEs) {
		fillSGEs(list, wr.SGEs)
		return
	}
	n = 0
	for k := range wr.SGEs {
		if wr.SGEs[k].Length > 0 {
			fillSGEs(list[n:n+1], wr.SGEs[k:])
			n++
		}
	}
}
