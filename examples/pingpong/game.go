package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pureverbs/pureverbs/examples/program"
)

// game counts the messages of each queue pair, knows what they contain, and watches the progress. It
// is not safe for concurrent use.
type game struct {
	o              *options
	pending        []pending // by queue pair
	posted         int
	sent, received int
	start          time.Time
	watch          *time.Timer
}

// pending lists the work requests that must complete before it is our turn again.
type pending struct{ send, recv bool }

var errStalled = errors.New("stalled")

// newGame starts the clock. The context that it returns ends when no message is counted within the
// timeout: see why.
func newGame(ctx context.Context, o *options) (*game, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &game{o: o, pending: make([]pending, o.qps), start: time.Now()}
	for i := range g.pending {
		g.pending[i].recv = o.server() // the client has the first turn
	}
	g.watch = time.AfterFunc(o.timeout, func() { cancel(errStalled) })
	return g, ctx
}

func (g *game) stop() { g.watch.Stop() }

// myTurn reports whether to send on queue pair q now. If so, it assumes that the caller does.
func (g *game) myTurn(q int) bool {
	if g.posted == g.o.iters || g.pending[q] != (pending{}) {
		return false
	}
	g.posted++
	g.pending[q] = pending{send: true, recv: true}
	return true
}

func (g *game) wasSent(q int) {
	g.watch.Reset(g.o.timeout)
	g.sent++
	g.pending[q].send = false
}

// wasReceived counts a message, and checks it.
func (g *game) wasReceived(q int, message []byte) error {
	g.watch.Reset(g.o.timeout)
	n := g.received
	g.received++
	g.pending[q].recv = false
	if len(message) != g.o.size {
		return fmt.Errorf("message %d has %d bytes, want %d: give both sides the same -s", n, len(message), g.o.size)
	}
	if !g.o.check {
		return nil
	}
	return verify(message, n, g.number(n))
}

func (g *game) over() bool { return g.sent >= g.o.iters && g.received >= g.o.iters }

// number returns the number that determines the contents of message n. With several queue pairs a
// stock peer keeps all messages in one buffer, so they must be equal.
func (g *game) number(n int) int {
	if g.o.kind == "srq" {
		return 0
	}
	return n
}

// fill writes the client's next message. The server sends back what it received.
func (g *game) fill(b []byte) {
	changes := g.o.check && g.o.kind != "srq"
	switch {
	case g.o.server() || g.posted > 1 && !changes: // it is there
	case g.o.check:
		copy(b, pattern(len(b), g.number(g.posted-1)))
	default:
		copy(b, bytes.Repeat([]byte{0x7b}, len(b)))
	}
}

// page is the distance of the bytes that the stock tools check. These must be 0.
const page = 4096

// pattern returns message n of a side with -c: different from byte to byte and from message to
// message, and right for a stock peer that checks.
func pattern(size, n int) []byte {
	b := make([]byte, size)
	for i := range b {
		if i%page != 0 {
			b[i] = byte(i)*7 + byte(i>>8)*13 + byte(n)*29 + byte(n>>8)*31 + 1
		}
	}
	return b
}

// verify checks every byte of the message of a peer with -c: one of ours, or a stock one, which fills
// all but the first byte of a page with 0x7b, or of type srq with 0.
func verify(b []byte, message, n int) error {
	wrong := program.Compare(b, func(want []byte) { copy(want, pattern(len(b), n)) })
	if wrong == nil {
		return nil
	}
	for _, fill := range []byte{0x7b, 0} {
		stock := bytes.Repeat([]byte{fill}, len(b))
		for i := 0; i < len(b); i += page {
			stock[i] = 0
		}
		if bytes.Equal(b, stock) {
			return nil
		}
	}
	return fmt.Errorf("message %d: %w (does the peer also have -c?)", message, wrong)
}

// why explains an error of waiting under the game's context.
func (g *game) why(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	progress := fmt.Sprintf("after %d messages sent and %d received of %d", g.sent, g.received, g.o.iters)
	if context.Cause(ctx) == errStalled {
		return fmt.Errorf("no completion for %v, %s: the peer is gone, or a message was lost", g.o.timeout, progress)
	}
	return fmt.Errorf("interrupted %s: %w", progress, err)
}

// report prints the result, in the words of the stock tools.
func (g *game) report(out io.Writer) {
	took := time.Since(g.start)
	us, size := float64(took.Nanoseconds())/1e3, int64(g.o.size)*int64(g.o.iters)*2
	fmt.Fprintf(out, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", size, took.Seconds(), float64(size)*8/us)
	fmt.Fprintf(out, "%d iters in %.2f seconds = %.2f usec/iter\n", g.o.iters, took.Seconds(), us/float64(g.o.iters))
	if g.o.check {
		fmt.Fprintf(out, "%d messages received, every byte as it should be\n", g.received)
	}
}
