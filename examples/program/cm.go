package program

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// Resolving is how long an address or a route may take.
const Resolving = 2 * time.Second

// Listen listens at the address of the server, and says so.
func (e *Ends) Listen(ctx context.Context, opt *rdmacm.Options, out io.Writer) (*rdmacm.Listener, error) {
	l, err := rdmacm.Listen(ctx, net.JoinHostPort(e.Bind, e.Port), opt)
	if err == nil {
		fmt.Fprintf(out, "listening on %v\n", l.Addr())
	}
	return l, err
}

// Serve serves the clients of l side by side. It ends when it is interrupted, as intended. It prints what fails.
func Serve(ctx context.Context, l *rdmacm.Listener, out io.Writer,
	serve func(context.Context, *rdmacm.Request) error) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		request, err := l.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		clients.Go(func() {
			if err := serve(ctx, request); err != nil && ctx.Err() == nil {
				fmt.Fprintf(out, "%v: %v\n", request.RemoteAddr(), err)
			}
		})
	}
}

// NextOf waits for the next completion of a connection. After the end of the connection the error is why it has ended.
func (t Timeout) NextOf(ctx context.Context, c *rdmacm.Conn) (ibv.WC, error) {
	ctx, cancel := t.Context(ctx)
	defer cancel()
	wc, err := t.Next(ctx, c.CQ())
	// The connection has ended; on iWARP its event may come later. There a message that has arrived may fail at its
	// sender if the peer has ended the connection at once.
	acked := c.PD().Device().Info().Transport.SendsAcked()
	if wc.Status == ibv.WCWRFlushErr || wc.Status == ibv.WCLocQPOpErr && !acked {
		select {
		case <-c.Done():
		case <-ctx.Done():
		}
	}
	if err != nil && ctx.Err() == nil && c.Err() != nil {
		err = c.Err()
	}
	return wc, err
}

// Events are those of one channel, which Handle gets, if there is one. Errors are its business then.
type Events struct {
	*rdmacm.EventChannel
	Handle func(*rdmacm.Event) error
	seen   map[rdmacm.EventType]int
}

// NewEvents makes a channel.
func NewEvents(handle func(*rdmacm.Event) error) (*Events, error) {
	ch, err := rdmacm.NewEventChannel()
	return &Events{ch, handle, map[rdmacm.EventType]int{}}, err
}

// Until waits until n events of a type have come since the beginning. It returns the last one that has.
func (e *Events) Until(ctx context.Context, n int, last rdmacm.EventType) (ev *rdmacm.Event, err error) {
	for e.seen[last] < n {
		if ev, err = e.Event(ctx); err != nil {
			return nil, err
		}
		switch {
		case ev.Type == rdmacm.EventTimewaitExit || ev.Type == rdmacm.EventAddrChange:
		case e.Handle != nil:
			err = e.Handle(ev)
		default:
			err = ev.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %w", ev.Type, err)
		}
		e.seen[ev.Type]++
	}
	return ev, nil
}
