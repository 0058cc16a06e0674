package ibv

import "github.com/pureverbs/pureverbs/internal/mlx5"

// takeRaw takes over the rings of a new raw packet QP. Completions of its receives have the tag of a
// steering rule where others have the number of their QP: their CQ has no other queue but its sends.
// Preconditions: no QP or WQ is being made on the CQs.
func (qp *QP) takeRaw(sq *mlx5.SQConfig, rq *mlx5.RQConfig) error {
	if rq == nil {
		qp.sq.direct = mlx5.NewQP(qp.Num(), false, sq, nil, nil)
		return nil
	}
	cq := qp.recv
	if len(cq.life.Children()) > 0 {
		return cq.inUse("a raw packet QP")
	}
	qp.sq.direct = mlx5.NewQP(qp.Num(), false, sq, nil, nil)
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.queues.xrc != nil { // an SRQ under construction has no parent yet
		return cq.inUse("a raw packet QP")
	}
	qp.rq.frames = cq.direct.live.AddRaw(qp.sq.direct, rq, qp.send == cq)
	cq.queues.frames = qp
	if cq.held == nil {
		cq.direct.fast = cq.usual()
	}
	return nil
}

// withoutPollers runs f, which takes the receive queue of a raw packet QP away: its pollers do not look
// for it in the table of QPs.
func (rq *receiver) withoutPollers(f func() error) error {
	if rq.frames == nil {
		return f()
	}
	rq.qp.recv.mu.Lock()
	defer rq.qp.recv.mu.Unlock()
	return f()
}

// emptyFrames empties the receive queue of the CQ's raw packet QP, and the CQ.
// Preconditions: cq.mu and the QP's locks are held.
func (cq *CQ) emptyFrames() {
	if cq.held != nil {
		cq.heldNothing()
	}
	cq.queues.frames.rq.frames.Reset()
}

// dropFrames forgets the receive queue of a raw packet QP, which has been destroyed.
// Preconditions: qp.rq.mu is held.
func (rq *receiver) dropFrames() {
	if rq.frames == nil {
		return
	}
	cq := rq.qp.recv
	cq.mu.Lock()
	defer cq.mu.Unlock()
	rq.frames.Drop()
	rq.frames, cq.queues.frames = nil, nil
	if cq.held == nil {
		cq.direct.fast = cq.usual()
	}
}

// announce runs modify, which moves a raw packet QP to RTR, and announces the receives to the device.
func (rq *receiver) announce(modify func() error) error {
	if err := modify(); err != nil {
		return err
	}
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if rq.frames != nil {
		rq.frames.Announce()
	}
	return nil
}
