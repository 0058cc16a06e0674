package ibv

import "github.com/pureverbs/pureverbs/internal/mlx5"

// takeRaw takes over the rings of a new raw packet QP. Completions of its receives have the tag of a
// steering rule where others have the number of their QP: their CQ has no other queue but its sends.
// Preconditions: no QP or WQ is being made on the CQs.
func (qp *QP) takeRaw(sq *mlx5.SQConfig, rq *mlx5.RQConfig) error {
	if rq == nil {
		qp.direct = mlx5.NewQP(qp.Num(), false, sq, nil, nil)
		return nil
	}
	cq := qp.recv
	if len(cq.life.Children()) > 0 {
		return cq.inUse("a raw packet QP")
	}
	qp.direct = mlx5.NewQP(qp.Num(), false, sq, nil, nil)
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.xrc != nil { // an SRQ under construction has no parent yet
		return cq.inUse("a raw packet QP")
	}
	qp.frames = cq.direct.AddRaw(qp.direct, rq, qp.send == cq)
	cq.frames = qp
	if cq.held == nil {
		cq.fast = cq.usual()
	}
	return nil
}

// withoutPollers runs f, which takes the receive queue of a raw packet QP away: its pollers do not look
// for it in the table of QPs.
func (qp *QP) withoutPollers(f func() error) error {
	if qp.frames == nil {
		return f()
	}
	qp.recv.mu.Lock()
	defer qp.recv.mu.Unlock()
	return f()
}

// emptyFrames empties the receive queue of the CQ's raw packet QP, and the CQ.
// Preconditions: cq.mu and the QP's locks are held.
func (cq *CQ) emptyFrames() {
	if cq.held != nil {
		cq.heldNothing()
	}
	cq.frames.frames.Reset()
}

// dropFrames forgets the receive queue of a raw packet QP, which has been destroyed.
// Preconditions: qp.rqMu is held.
func (qp *QP) dropFrames() {
	if qp.frames == nil {
		return
	}
	cq := qp.recv
	cq.mu.Lock()
	defer cq.mu.Unlock()
	qp.frames.Drop()
	qp.frames, cq.frames = nil, nil
	if cq.held == nil {
		cq.fast = cq.usual()
	}
}

// announce runs modify, which moves a raw packet QP to RTR, and announces the receives to the device.
func (qp *QP) announce(modify func() error) error {
	if err := modify(); err != nil {
		return err
	}
	qp.rqMu.Lock()
	defer qp.rqMu.Unlock()
	if qp.frames != nil {
		qp.frames.Announce()
	}
	return nil
}
