package cm

import (
	"context"
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// SilenceError is returned when nothing was received from the peer within the timeout.
type SilenceError struct{ After time.Duration }

func (e *SilenceError) Error() string {
	return fmt.Sprintf("nothing for %v: the peer is gone or stuck, or a datagram was lost (--timeout waits "+
		"longer)", e.After)
}

// Timeout is true, as for the timeouts of package net.
func (e *SilenceError) Timeout() bool { return true }

// Next waits for the next completion of a connection, which must be a success. If the connection
// has ended, the error is the connection's: posted work requests then complete with WCWRFlushErr.
func Next(ctx context.Context, c *rdmacm.Conn, limit time.Duration) (ibv.WC, error) {
	wc, err := NextOf(ctx, c.CQ(), limit)
	if err != nil && c.Err() != nil {
		return wc, c.Err()
	}
	return wc, err
}

// NextOf is Next for a CQ without a connection.
func NextOf(ctx context.Context, cq *ibv.CQ, limit time.Duration) (ibv.WC, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &SilenceError{After: limit})
	defer cancel()
	var wc [1]ibv.WC
	if _, err := cq.Wait(ctx, wc[:]); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return wc[0], err
	}
	return wc[0], wc[0].Err()
}
