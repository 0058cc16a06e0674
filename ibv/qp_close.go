package ibv

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/ops"
)

// Close destroys the QP, whatever its state, and detaches it from the groups of AttachMcast. Later posts return
// ErrClosed.
//
// C: ibv_destroy_qp(3).
func (qp *QP) Close() error {
	var (
		sq *ops.SendChain
		rq *ops.RecvChain
	)
	return qp.node.close(func() error {
		qp.sq.mu.Lock()
		defer qp.sq.mu.Unlock()
		qp.rq.mu.Lock()
		defer qp.rq.mu.Unlock()
		if err := qp.suspended(qp.destroy); err != nil {
			return err
		}
		if qp.sq.direct != nil {
			qp.dev.direct.qps.Forget(qp.sq.direct)
			qp.rq.dropFrames()
			qp.sq.direct = nil
			if qp.typ == DCT {
				qp.recv.mu.Lock()
				qp.recv.queues.dcts--
				qp.recv.mu.Unlock()
			}
		}
		if qp.typ == DCT {
			qp.sq.errs.gone = &OpError{Op: opPostSend, Object: qp.name, Err: ErrClosed}
		}
		if qp.send != nil {
			qp.send.forgetSends(qp)
		}
		qp.inCQE.carry(qp.srq, -1)
		qp.dev.unregister(qp.handle)
		sq, rq = qp.sq.chain, qp.rq.chain
		qp.sq.chain, qp.rq.chain = nil, nil
		return nil
	}, qp.make.mlx5.close, func() error { return errors.Join(sq.Free(), rq.Free()) })
}

// destroy destroys the C object. C refuses while the QP is attached to a group.
// Preconditions: nobody has entered the QP.
func (qp *QP) destroy() error {
	err := qp.make.end(qp.dev, qp.handle)
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	var detached []mcastGroup
	for g := range qp.groups.set {
		if g.call(qp, false) == nil {
			detached = append(detached, g)
		}
	}
	if detached != nil {
		err = qp.make.end(qp.dev, qp.handle)
	}
	if err == nil {
		return nil
	}
	for _, g := range detached {
		_ = g.call(qp, true)
	}
	if qp.typ == UD && errors.Is(err, syscall.EBUSY) {
		return &BusyError{Object: qp.String(),
			Children: []string{"a multicast group that another library attached it to"}}
	}
	return err
}
