package rdma

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/internal/foreign"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// authorizeMost bounds the calls of Options.Authorize at a time, without those whose time is over.
const authorizeMost = 1024

// authorizer has Options.Authorize decide about the peers of a listener.
type authorizer struct {
	permit func(context.Context, ConnRequest) error // nil permits every peer
	limit  time.Duration
	places chan struct{}
	calls  foreign.Calls
}

func newAuthorizer(o *Options) *authorizer {
	return &authorizer{permit: o.Authorize, limit: o.handshakeTime(), places: make(chan struct{}, authorizeMost)}
}

// ask decides about a peer, and calls then with nil, or with why it is refused, on a goroutine of group. While there
// are too many calls, it waits. ctx ends with the listener.
func (a *authorizer) ask(ctx context.Context, group *sync.WaitGroup, r ConnRequest,
	then func(wire.RejectReason, error)) {
	if a.permit == nil {
		then(wire.RejectOther, nil)
		return
	}
	select {
	case a.places <- struct{}{}:
	case <-ctx.Done():
		then(wire.RejectClosed, ErrClosed)
		return
	}
	group.Go(func() {
		defer func() { <-a.places }()
		then(a.call(ctx, r))
	})
}

// call has Options.Authorize decide. It returns when the time is over, even if Authorize does not.
func (a *authorizer) call(ctx context.Context, r ConnRequest) (wire.RejectReason, error) {
	listening := ctx
	ctx, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	var decided error
	err := a.calls.Wait(ctx.Done(), func() { decided = a.permit(ctx, r) })
	if err == nil {
		err = decided
	}
	switch {
	case listening.Err() != nil:
		return wire.RejectClosed, ErrClosed
	case ctx.Err() != nil:
		return wire.RejectLate, errors.Join(ctx.Err(), err)
	case err == foreign.ErrStuck:
		return wire.RejectBusy, err
	}
	return wire.RejectAuthorize, err
}
