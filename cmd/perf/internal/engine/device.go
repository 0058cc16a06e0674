package engine

import (
	"context"
	"errors"

	"github.com/pureverbs/pureverbs/ibv"
)

// watchDevice ends the run on an event of the device after which its figures do not count. The returned function stops
// the watch.
func (r *run) watchDevice(cancel context.CancelCauseFunc) (stop func()) {
	ctx, end := context.WithCancel(r.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			ev, err := r.Device().AsyncEvent(ctx)
			if err != nil {
				return // the run is over, or its own calls fail as this one did
			}
			if fatal(ev.Type) {
				cancel(errors.New(ev.String()))
				return
			}
		}
	}()
	return func() {
		end()
		<-done
	}
}

// fatal reports whether an event ends a run. A port that goes down may come up again before the
// queue pairs give up.
func fatal(t ibv.AsyncEventType) bool {
	switch t {
	case ibv.EventDeviceFatal, ibv.EventCQErr, ibv.EventQPFatal, ibv.EventQPReqErr, ibv.EventQPAccessErr,
		ibv.EventSRQErr:
		return true
	}
	return false
}
