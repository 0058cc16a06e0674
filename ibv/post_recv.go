package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/ops"
)

type recvErrors struct{ gone, full, srq error }

func (e *recvErrors) init(qp *QP) {
	name := qp.name
	e.gone = &OpError{Op: "post recv", Object: name, Err: goneOf(qp.send.path)}
	e.full = &OpError{Op: "post recv", Object: name, Err: ErrQueueFull}
	e.srq = &OpError{Op: "post recv", Object: name, Err: errInvalid, Detail: "the qp receives from an SRQ: post there"}
}

// PostRecv posts receive buffers, from the state INIT on. It returns how many
// were accepted; when those are not all, the error says what is wrong with
// wrs[n]: ErrQueueFull when completions have to be polled first. It does not
// allocate.
//
// C: ibv_post_recv(3).
func (qp *QP) PostRecv(wrs []RecvWR) (int, error) {
	qp.rqMu.Lock()
	direct := qp.direct
	if direct != nil && qp.srq == nil && !direct.Broken() {
		if s := qp.loadState(); s != StateReset && s != StateUnknown {
			n := direct.RQ.Post(mlx5Recvs(wrs))
			qp.rqMu.Unlock()
			if n < len(wrs) {
				return n, qp.recvFailed(n, recvError(&wrs[n], qp.cap.MaxRecvSGE))
			}
			return n, nil
		}
	}
	if qp.rq == nil && (direct == nil || qp.srq != nil) {
		qp.rqMu.Unlock()
		if qp.srq != nil {
			return 0, qp.errRecv.srq
		}
		return 0, qp.errRecv.gone
	}
	if s := qp.loadState(); s == StateReset || s == StateUnknown {
		qp.rqMu.Unlock()
		return 0, &OpError{Op: "post recv", Object: qp.name, Err: &StateError{Op: "post recv", State: s,
			Need: "INIT or later: Init, Connect, or Modify to INIT"}}
	}
	var n int
	var err error
	if direct == nil {
		n, err = postRecv(qp.rq, qp.cap.MaxRecvSGE, wrs)
	} else {
		err = ErrBroken
	}
	qp.rqMu.Unlock()
	if err != nil {
		err = qp.recvFailed(n, err)
	}
	return n, err
}

// recvFailed tells of what stopped the posting of work request n.
func (qp *QP) recvFailed(n int, err error) error {
	if err == ErrQueueFull {
		return qp.errRecv.full
	}
	return &OpError{Op: "post recv", Object: qp.name, Err: err, Detail: fmt.Sprintf("work request %d", n)}
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
			fillSGEs(chain.Slot(i, wr.ID, len(wr.SGEs)), wr.SGEs)
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
