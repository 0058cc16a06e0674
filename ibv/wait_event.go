package ibv

import "context"

// waitEvent sleeps until the CQ has received more than seen events.
func (cq *CQ) waitEvent(ctx context.Context, seen uint32) error {
	const op = "wait for event"
	if cq.channel == nil {
		return &OpError{Op: op, Object: cq.name, Err: &ArgError{
			Arg: "CQ", Got: "one without a channel (CQOptions.NoEvents)", Want: "one with a channel"}}
	}
	w := cq.join()
	defer cq.part(w)
	for cq.events.Load() == seen {
		select {
		case <-w.ch:
		case <-cq.done:
			return &OpError{Op: op, Object: cq.name, Err: ErrClosed}
		case <-cq.channel.stop:
			return &OpError{Op: op, Object: cq.name, Err: cq.channel.err, Detail: "the completion channel failed"}
		case <-cq.dev.removed.ch:
			return &OpError{Op: op, Object: cq.name, Err: cq.dev.removed.err}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
