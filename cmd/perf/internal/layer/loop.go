package layer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
	"github.com/pureverbs/pureverbs/rdma"
)

// receiveBuffer is the size of a receiver's buffer, or the size of a message if that is more.
const receiveBuffer = 64 << 10

// work is a run at one end.
type work struct {
	order
	pipes []pipe
	bufs  [][]byte
	moved atomic.Uint64 // changes while something moves
	lat   *measure.Latency
}

// newWork makes the work of an order, whose ctx ends with an error when nothing moves for a while.
func newWork(ctx context.Context, o order, timeout time.Duration) (*work, context.Context, func()) {
	w := &work{order: o}
	ctx, cancel := context.WithCancelCause(ctx)
	last := w.moved.Load()
	stop := tick.Every(timeout, func() {
		moved := w.moved.Load()
		if moved == last {
			cancel(fmt.Errorf("no progress for %v", timeout))
		}
		last = moved
	})
	return w, ctx, func() { stop(); cancel(nil) }
}

// buffers makes the buffers of all connections.
func (w *work) buffers() {
	for range w.pipes {
		w.bufs = append(w.bufs, make([]byte, max(w.Size, receiveBuffer)))
	}
}

// close closes the connections.
func (w *work) close() {
	for _, p := range w.pipes {
		p.close()
	}
}

// engine returns the engine that the connections belong to, or nil.
func (w *work) engine() *rdma.Engine {
	if l := w.pipes[0].link(); l != nil {
		return l.Engine()
	}
	return nil
}

// part is the work of an end on one connection, with a buffer, for some messages.
type part func(context.Context, pipe, []byte, int) error

// each runs a part on each connection, and returns the first error, after which the others are closed.
func (w *work) each(ctx context.Context, n int, do part) error {
	var (
		all   sync.WaitGroup
		once  sync.Once
		first error
	)
	defer context.AfterFunc(ctx, w.close)()
	for i, p := range w.pipes {
		all.Go(func() {
			if err := do(ctx, p, w.bufs[i], n); err != nil {
				once.Do(func() {
					if first = err; ctx.Err() != nil {
						first = context.Cause(ctx)
					}
					w.close()
				})
			}
		})
	}
	all.Wait()
	return first
}

// progress is the number of messages after which a loop reports progress.
const progress = 32

// send is the client's loop of bandwidth.
func (w *work) send(ctx context.Context, p pipe, buf []byte, n int) error {
	buf = buf[:w.Size]
	for i := range n {
		if err := p.send(ctx, buf); err != nil {
			return err
		}
		if i%progress == 0 {
			w.moved.Add(1)
		}
	}
	return nil
}

// receive is the server's.
func (w *work) receive(ctx context.Context, p pipe, buf []byte, n int) error {
	for i, left := 0, n*w.Size; left > 0; i++ {
		got, err := p.recv(ctx, buf[:min(len(buf), left)])
		if err != nil {
			return err
		}
		left -= got
		if i%progress == 0 {
			w.moved.Add(1)
		}
	}
	return nil
}

// full receives one message.
func (w *work) full(ctx context.Context, p pipe, buf []byte) error {
	for got := 0; got < w.Size; {
		n, err := p.recv(ctx, buf[got:w.Size])
		if err != nil {
			return err
		}
		got += n
	}
	return nil
}

// ping is the client's loop of latency. A sample is half a round trip.
func (w *work) ping(ctx context.Context, p pipe, buf []byte, n int) error {
	w.lat = measure.NewExact(n)
	for range n {
		start := time.Now()
		if err := p.send(ctx, buf[:w.Size]); err != nil {
			return err
		}
		if err := w.full(ctx, p, buf); err != nil {
			return err
		}
		w.lat.Record(float64(time.Since(start)) / 2)
		w.moved.Add(1)
	}
	return nil
}

// pong is the server's.
func (w *work) pong(ctx context.Context, p pipe, buf []byte, n int) error {
	for range n {
		if err := w.full(ctx, p, buf); err != nil {
			return err
		}
		if err := p.send(ctx, buf[:w.Size]); err != nil {
			return err
		}
		w.moved.Add(1)
	}
	return nil
}
