package pingpong

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Game tracks whose turn it is on each queue pair, how many messages were sent and received, what
// they contain, and whether there is progress. It is not safe for concurrent use.
type Game struct {
	o              *Options
	pending        []pending // by queue pair
	posted         int
	sent, received int
	start          time.Time
	watch          *time.Timer
}

// pending counts what must complete before it is our turn again.
type pending struct{ send, recv bool }

var errStalled = errors.New("stalled")

// NewGame starts the clock. The context that it returns ends when no message is counted within the
// timeout: see Why.
func NewGame(ctx context.Context, o *Options) (*Game, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &Game{o: o, pending: make([]pending, o.QPs), start: time.Now()}
	for i := range g.pending {
		g.pending[i].recv = o.IsServer()
	}
	g.watch = time.AfterFunc(o.Timeout, func() { cancel(errStalled) })
	return g, ctx
}

// MyTurn reports whether to send on queue pair q now. If so, it assumes that the caller does. The
// client has the first turn.
func (g *Game) MyTurn(q int) bool {
	if g.posted == g.o.Iters || g.pending[q] != (pending{}) {
		return false
	}
	g.posted++
	g.pending[q] = pending{send: true, recv: true}
	return true
}

// number returns the number that determines the contents of the n-th message. With several queue
// pairs a stock peer keeps all messages in one buffer, so they must be equal.
func (g *Game) number(n int) int {
	if g.o.Program.QPs != 0 {
		return 0
	}
	return n
}

// Fill writes the next message of the client into b. The server sends back what
// it received, so there it does nothing.
func (g *Game) Fill(b []byte) {
	same := !g.o.Check || g.o.Program.QPs != 0
	if g.o.IsServer() || same && g.posted > 1 {
		return
	}
	fill(b, g.number(g.posted-1), g.o.Check)
}

// Sent counts a message that queue pair q has sent.
func (g *Game) Sent(q int) {
	g.watch.Reset(g.o.Timeout)
	g.sent++
	g.pending[q].send = false
}

// Received counts a message that queue pair q has received, and checks it.
func (g *Game) Received(q int, payload []byte) error {
	g.watch.Reset(g.o.Timeout)
	n := g.received
	g.received++
	g.pending[q].recv = false
	if len(payload) != g.o.Size {
		return &LengthError{Message: n, Got: len(payload), Want: g.o.Size}
	}
	if !g.o.Check {
		return nil
	}
	return verify(payload, g.number(n))
}

// Over reports whether all messages were sent and received.
func (g *Game) Over() bool { return g.sent >= g.o.Iters && g.received >= g.o.Iters }

// Stop ends the watch for progress.
func (g *Game) Stop() { g.watch.Stop() }

// Why explains an error of waiting under the game's context.
func (g *Game) Why(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	if context.Cause(ctx) == errStalled {
		return &StallError{After: g.o.Timeout, Sent: g.sent, Received: g.received, Iters: g.o.Iters}
	}
	return fmt.Errorf("interrupted after %d messages sent and %d received of %d: %w", g.sent, g.received,
		g.o.Iters, err)
}

// Report prints the result, in the words of the stock tools.
func (g *Game) Report(out io.Writer) {
	took := time.Since(g.start)
	bytes := int64(g.o.Size) * int64(g.o.Iters) * 2
	us := float64(took.Nanoseconds()) / 1e3
	fmt.Fprintf(out, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", bytes, took.Seconds(), float64(bytes)*8/us)
	fmt.Fprintf(out, "%d iters in %.2f seconds = %.2f usec/iter\n", g.o.Iters, took.Seconds(), us/float64(g.o.Iters))
	if g.o.Check {
		fmt.Fprintf(out, "%d messages received, every byte as it should be\n", g.received)
	}
}
