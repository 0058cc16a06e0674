package ibv

import "context"

// Events counts the completion events of the CQ, and wraps around. It also counts what makes completions available
// without an event: EventCQErr, and on some paths the close of a QP, an SRQ or an MR. So poll after each change.
func (cq *CQ) Events() uint32 { return cq.events.Load() }

// WaitEvent sleeps until Events returns something other than seen. After EventCQErr the program polls what the CQ
// still has; then WaitEvent returns an *EventError. It is for programs that arm and poll themselves; Wait does all of
// it:
//
//	seen := cq.Events()
//	err := cq.Arm(false) // then Poll: what came before the arming raises no event
//	err = cq.WaitEvent(ctx, seen)
//
// C: ibv_get_cq_event(3), without acknowledgement, which is done already.
func (cq *CQ) WaitEvent(ctx context.Context, seen uint32) error {
	const op = "wait for event"
	if cq.channel == nil {
		return &OpError{Op: op, Object: cq.name, Err: &ArgError{
			Arg: "CQ", Got: "one without a channel (CQOptions.NoEvents)", Want: "one with a channel"}}
	}
	w := cq.sleepers.join()
	defer cq.sleepers.part(w)
	for cq.events.Load() == seen {
		select {
		case <-w.ch:
		case <-cq.done:
			return &OpError{Op: op, Object: cq.name, Err: ErrClosed}
		case <-cq.channel.stop:
			return &OpError{Op: op, Object: cq.name, Err: cq.channel.err, Detail: "the completion channel failed"}
		case <-cq.sleepers.failed.ch:
			return &OpError{Op: op, Object: cq.name, Err: cq.sleepers.failed.err}
		case <-cq.dev.removed.ch:
			return &OpError{Op: op, Object: cq.name, Err: cq.dev.removed.err}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
