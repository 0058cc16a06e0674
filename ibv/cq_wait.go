package ibv

import (
	"context"
	"iter"
	"runtime"
	"time"
)

// Wait returns as soon as there is a completion, with as many as fit in wcs. It polls for CQOptions.Spin, then sleeps
// on the completion channel without a thread. Several goroutines may wait for one CQ. When ctx ends it returns its
// error; work requests stay posted, and their memory stays the device's.
//
// When the device is gone, and no completion is left, Wait returns ErrDeviceRemoved. After EventCQErr of the CQ it
// returns an *EventError in the same way. Some goroutine has to read that event by Device.AsyncEvent.
//
// A send whose peer has no receive posted gives no completion: it is retried for ever, unless ConnectOptions.RNRRetry
// sets a limit.
func (cq *CQ) Wait(ctx context.Context, wcs []WC) (int, error) { return wait(ctx, cq, wcs, (*CQ).Poll) }

func wait[T WC | WCEx](ctx context.Context, cq *CQ, wcs []T, poll func(*CQ, []T) (int, error)) (int, error) {
	if len(wcs) == 0 {
		return 0, &OpError{Op: "wait", Object: cq.name, Err: &ArgError{Arg: "len(wcs)", Got: "0", Want: "at least 1"}}
	}
	if n, err := poll(cq, wcs); n > 0 || err != nil {
		return n, err
	}
	if n, err := spinFor(ctx, cq, wcs, poll); n > 0 || err != nil {
		return n, err
	}
	w := cq.sleepers.join()
	defer cq.sleepers.part(w)
	var gone chan struct{}
	if cq.channel != nil {
		gone = cq.channel.stop
	}
	for {
		if err := cq.Arm(cq.solicited); err != nil {
			return 0, err
		}
		// A completion that came before the arming gives no event.
		if n, err := poll(cq, wcs); n > 0 || err != nil {
			return n, err
		}
		var end error
		select {
		case <-w.ch:
		case <-cq.done:
		case <-gone:
			end = &OpError{Op: "wait", Object: cq.name, Err: cq.channel.err, Detail: "the completion channel failed"}
		case <-cq.sleepers.failed.ch:
			end = &OpError{Op: "wait", Object: cq.name, Err: cq.sleepers.failed.err}
		case <-cq.dev.removed.ch:
			end = &OpError{Op: "wait", Object: cq.name, Err: cq.dev.removed.err}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if n, err := poll(cq, wcs); n > 0 || err != nil {
			return n, err
		}
		if end != nil {
			return 0, end
		}
	}
}

// spinFor polls for the CQ's spin time, or until ctx ends without a channel.
func spinFor[T WC | WCEx](ctx context.Context, cq *CQ, wcs []T, poll func(*CQ, []T) (int, error)) (int, error) {
	forever := cq.channel == nil
	if cq.spin < 0 && !forever {
		return 0, ctx.Err()
	}
	start := time.Now()
	for {
		for range 16 {
			if n, err := poll(cq, wcs); n > 0 || err != nil {
				return n, err
			}
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if forever {
			if end := cq.ended(); end != nil {
				if n, err := poll(cq, wcs); n > 0 || err != nil {
					return n, err
				}
				return 0, &OpError{Op: "wait", Object: cq.name, Err: end}
			}
		}
		if !forever && time.Since(start) >= cq.spin {
			return 0, nil
		}
		runtime.Gosched()
	}
}

// Completions yields completions until ctx ends, the CQ is closed or the loop
// is left; the error is then the last pair. Failed work requests are
// completions, not errors: see WC.Err.
func (cq *CQ) Completions(ctx context.Context) iter.Seq2[WC, error] {
	return func(yield func(WC, error) bool) {
		var wcs [1]WC // one at a time: leaving the loop must lose none
		for {
			if _, err := cq.Wait(ctx, wcs[:]); err != nil {
				yield(WC{}, err)
				return
			}
			if !yield(wcs[0], nil) {
				return
			}
		}
	}
}

// ended returns why no completion will come any more, or nil.
func (cq *CQ) ended() error {
	switch {
	case cq.sleepers.failed.noted():
		return cq.sleepers.failed.err
	case cq.dev.removed.noted():
		return cq.dev.removed.err
	}
	return nil
}

// WaitEx is Wait with all fields that CQOptions.Fields asks for.
func (cq *CQ) WaitEx(ctx context.Context, wcs []WCEx) (int, error) {
	return wait(ctx, cq, wcs, (*CQ).PollEx)
}
