package rs

import (
	"context"
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// until tries a call until it need not wait, for as long as --timeout says.
func (s *Socket) until(ev rsocket.Events, try func() error) (err error) {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if !s.blocks {
		if err = try(); !errors.Is(err, syscall.EAGAIN) {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.o.Timeout, &cm.SilenceError{After: s.o.Timeout})
	defer cancel()
	if !s.blocks {
		return s.Try(ctx, ev, try)
	}
	// A call that blocks in C ends with the connection.
	defer context.AfterFunc(ctx, func() { _ = s.Shutdown(rsocket.ShutBoth) })()
	if err = try(); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Try tries a call until it need not wait, for as long as ctx says. The cause of ctx is the error after that.
func (s *Socket) Try(ctx context.Context, ev rsocket.Events, try func() error) error {
	if err := s.poller.Add(s.Socket, ev); err != nil {
		return err
	}
	for {
		if err := try(); !errors.Is(err, syscall.EAGAIN) {
			return err
		}
		var err error
		if s.o.Wait != Nonblocking {
			_, err = s.poller.Wait(ctx)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}
