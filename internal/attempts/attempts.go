// Package attempts decides which address of a name is tried when, and which attempt becomes the connection.
package attempts

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/internal/foreign"
)

// Delay is how long the first way is tried alone (RFC 6555, and package net).
const Delay = 300 * time.Millisecond

// shareLeast is the least share of the time that an address gets while as much is left (as in package net).
const shareLeast = 2 * time.Second

// Dial tries the addresses of a name, as package net does, and returns the first connection. Those of the first one's
// family are tried in turn; those of the other family begin after Delay, or when the first ones have failed. Each has
// an equal part of the time that ctx leaves to the rest of its family. connect has a context of its own for each, which
// ends when another has succeeded. drop closes a connection that came after another. The error is that of connect, or
// joins those of all addresses.
//
// local is the address to dial from, if there is one: addresses of the other family are left out.
func Dial[C any](ctx context.Context, addrs []netip.AddrPort, local netip.Addr,
	connect func(context.Context, netip.AddrPort) (C, error), drop func(C)) (C, error) {
	first, other := families(addrs, local)
	turn := func(list []netip.AddrPort) func(context.Context, error) (C, error) {
		return func(ctx context.Context, _ error) (C, error) { return InTurn(ctx, list, connect) }
	}
	if len(other) == 0 {
		return turn(first)(ctx, nil)
	}
	return Race(ctx, Delay, turn(first), turn(other), drop)
}

// families returns the addresses of the first one's family, and the others.
func families(addrs []netip.AddrPort, local netip.Addr) (first, other []netip.AddrPort) {
	is4 := func(a netip.Addr) bool { return a.Unmap().Is4() }
	for _, a := range addrs {
		if is4(a.Addr()) == is4(addrs[0].Addr()) {
			first = append(first, a)
		} else {
			other = append(other, a)
		}
	}
	switch {
	case len(other) == 0, !local.IsValid():
		return first, other
	case is4(local) == is4(first[0].Addr()):
		return first, nil
	}
	return other, nil
}

// InTurn is Dial without a second family at the same time: for connections that a listener has as soon as it is asked.
func InTurn[C any](ctx context.Context, addrs []netip.AddrPort,
	connect func(context.Context, netip.AddrPort) (C, error)) (c C, err error) {
	var errs []error
	for i, a := range addrs {
		one, cancel := share(ctx, len(addrs)-i)
		c, err = connect(one, a)
		cancel()
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return c, join(errs...)
}

// share returns the context of the next of n addresses.
func share(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	left := time.Until(end)
	if !bounded || n == 1 || left <= shareLeast {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, max(left/time.Duration(n), shareLeast))
}

// Staggered tries addresses of any kind as RFC 8305 does: the next one begins when the one before has failed, or after
// delay, and the first connection is returned. connect, drop and the error are as for Dial.
func Staggered[A, C any](ctx context.Context, delay time.Duration, addrs []A,
	connect func(context.Context, A) (C, error), drop func(C)) (C, error) {
	first := func(ctx context.Context, _ error) (C, error) { return connect(ctx, addrs[0]) }
	if len(addrs) == 1 {
		return first(ctx, nil)
	}
	return Race(ctx, delay, first, func(ctx context.Context, _ error) (C, error) {
		return Staggered(ctx, delay, addrs[1:], connect, drop)
	}, drop)
}

// Race begins the first way, and the second when that has failed or takes longer than delay. A way gets the error of
// the one before, or nil if that is still at work. The first connection is returned. Then the context of the other way
// ends, and drop closes a connection that it makes nevertheless. If both fail, both have ended. A way that ends its
// goroutine has failed.
func Race[C any](ctx context.Context, delay time.Duration, first, second func(context.Context, error) (C, error),
	drop func(C)) (C, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		which int
		c     C
		err   error
	}
	results := make(chan result, 2)
	begin := func(which int, way func(context.Context, error) (C, error), before error) {
		r := result{which: which, err: foreign.ErrExited}
		go foreign.Call(func() { r.c, r.err = way(ctx, before) }, func(bool) { results <- r })
	}
	begin(0, first, nil)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	var errs [2]error
	for running, began := 1, false; ; {
		select {
		case r := <-results:
			running--
			if r.err == nil && running > 0 {
				go func() {
					if late := <-results; late.err == nil {
						drop(late.c)
					}
				}()
			}
			if r.err == nil {
				return r.c, nil
			}
			errs[r.which] = r.err
		case <-timer.C:
		}
		switch {
		case !began && ctx.Err() == nil:
			begin(1, second, errs[0])
			running, began = running+1, true
		case running == 0:
			var none C
			return none, join(errs[:]...)
		}
	}
}

// join joins errors, without those of attempts that were too late. One alone stays as it is.
func join(errs ...error) error {
	var list []error
	for _, err := range errs {
		if err != nil && !errors.Is(err, ErrLost) {
			list = append(list, err)
		}
	}
	switch len(list) {
	case 0:
		return ErrLost
	case 1:
		return list[0]
	}
	return errors.Join(list...)
}
