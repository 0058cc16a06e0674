package ibv

import (
	"fmt"
)

// roomForWQ reports why a CQ of the direct data path cannot take a WQ. Completions of a WQ carry the
// tag of a steering rule where others have the number of their QP.
// Preconditions: no QP is being made on the CQ.
func (cq *CQ) roomForWQ() error {
	if len(cq.life.Children()) == 0 {
		return nil
	}
	return cq.inUse("a WQ")
}

func (cq *CQ) inUse(what string) error { return cq.notShared(what, "is in use") }

// notShared is the error of a CQ of the direct data path with more queues than its completions can distinguish.
func (cq *CQ) notShared(what, why string) error {
	return &UnsupportedError{Feature: what + " and other queues on one CQ of the direct data path",
		Need: "a CQ for each, or a CQ made with DataPathOps", Have: cq.node.String() + ", which " + why}
}

// directQP reports why there is no QP of a type on CQs of the direct data path.
func directQP(t QPType, send, recv *CQ, srq *SRQ) error {
	if err := directType(t); err != nil {
		return err
	}
	if err := send.noWQ(); err != nil {
		return err
	}
	if srq != nil && recv != nil {
		if err := recv.takesSRQ(); err != nil {
			return err
		}
	}
	return recv.noWQ()
}

// takesSRQ refuses a CQ whose completions of an SRQ's receives could be compressed: their WQEs need not follow one
// another, and no source shows what an adapter writes then.
func (cq *CQ) takesSRQ() error {
	if cq.direct.ring == nil || !cq.direct.ring.Compressed() || cq.entries.try {
		return nil
	}
	return &UnsupportedError{Feature: "compressed completions with an SRQ",
		Need: "a CQ without compression, or mlx5dv.CQOptions.UntriedCompression on an adapter that is to be tried",
		Have: "a format that no adapter has shown with an SRQ"}
}

// noWQ reports that a CQ of the direct data path has a WQ, or receives frames, and so cannot have another queue.
func (cq *CQ) noWQ() error {
	if cq == nil {
		return nil
	}
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.noWQLocked()
}

// Preconditions: cq.mu is held.
func (cq *CQ) noWQLocked() error {
	switch {
	case cq.queues.wq != nil:
		return cq.notShared("a WQ", "has a WQ")
	case cq.queues.frames != nil:
		return cq.notShared("a raw packet QP", "receives its frames")
	}
	return nil
}

// takeWQ takes over the ring of a new WQ, and makes it the one of its CQ.
// Preconditions: roomForWQ.
func (w *WQ) takeWQ() error {
	v, err := w.pd.dev.direct.dv.InitRWQ(w.handle)
	if err != nil {
		return fmt.Errorf("mlx5dv_init_obj: %w", err)
	}
	if v.WQECnt == 0 || v.WQECnt&(v.WQECnt-1) != 0 {
		return &UnsupportedError{Feature: "the direct data path", Need: "a WQ of a power of two of entries",
			Have: fmt.Sprint(v.WQECnt)}
	}
	w.cq.mu.Lock()
	defer w.cq.mu.Unlock()
	if w.cq.queues.xrc != nil { // an SRQ under construction has no parent yet
		return w.cq.inUse("a WQ")
	}
	w.cq.queues.wq = w
	w.direct = w.cq.direct.ring.AddWQ(wqConfig(v, w.cap.MaxSGE))
	return nil
}
