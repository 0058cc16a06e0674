package rdma

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/internal/foreign"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestAuthorizer has calls of Authorize that end in every way, and more that never return than there are places.
func TestAuthorizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group sync.WaitGroup
		listening, stop := context.WithCancel(context.Background())
		never := make(chan struct{})
		defer close(never)
		var what atomic.Value
		decides := func(f func(context.Context) error) { what.Store(f) }
		a := newAuthorizer(&Options{Timeout: time.Second, Authorize: func(ctx context.Context, _ ConnRequest) error {
			return what.Load().(func(context.Context) error)(ctx)
		}})
		type answer struct {
			why   wire.RejectReason
			err   error
			after time.Duration
		}
		ask := func() <-chan answer {
			ch, began := make(chan answer, 1), time.Now()
			a.ask(listening, &group, ConnRequest{}, func(why wire.RejectReason, err error) {
				ch <- answer{why, err, time.Since(began)}
			})
			return ch
		}
		no := errors.New("no")
		for _, c := range []struct {
			name  string
			f     func(ctx context.Context) error
			why   wire.RejectReason
			err   error
			after time.Duration
		}{
			{"permits", func(context.Context) error { return nil }, 0, nil, 0},
			{"refuses", func(context.Context) error { return no }, wire.RejectAuthorize, no, 0},
			{"has a time of its own", func(context.Context) error { return context.DeadlineExceeded },
				wire.RejectAuthorize, context.DeadlineExceeded, 0},
			{"exits", func(context.Context) error { runtime.Goexit(); return nil }, wire.RejectAuthorize,
				foreign.ErrExited, 0},
			{"waits", func(ctx context.Context) error { <-ctx.Done(); return nil }, wire.RejectLate,
				context.DeadlineExceeded, time.Second},
			{"permits too late", func(context.Context) error { time.Sleep(2 * time.Second); return nil },
				wire.RejectLate, foreign.ErrLeft, time.Second},
		} {
			decides(c.f)
			if got := <-ask(); !errors.Is(got.err, c.err) || (got.err == nil) != (c.err == nil) ||
				got.after != c.after || got.err != nil && got.why != c.why {
				t.Errorf("%s: %+v, want %v, %v after %v", c.name, got, c.why, c.err, c.after)
			}
		}
		decides(func(context.Context) error { <-never; return nil })
		var stuck []<-chan answer
		for range 2 * authorizeMost { // the second half waits for the places of the first
			stuck = append(stuck, ask())
		}
		synctest.Wait()
		decides(func(context.Context) error { return nil })
		good := ask()
		for i, ch := range stuck {
			if got := <-ch; got.why != wire.RejectLate {
				t.Fatalf("call %d that never returns: %+v", i, got)
			}
		}
		if got := <-good; got.err != nil {
			t.Errorf("a peer after %d calls that never return: %+v", len(stuck), got)
		}
		decides(func(context.Context) error { <-never; return nil })
		for len(stuck) < foreign.Most {
			stuck = append(stuck, ask())
		}
		time.Sleep(time.Second)
		if got := <-ask(); got.why != wire.RejectBusy || got.err != foreign.ErrStuck {
			t.Errorf("a peer after %d calls that never return: %+v", len(stuck), got)
		}
		stop()
		if got := <-ask(); got.why != wire.RejectClosed {
			t.Errorf("after the end: %+v", got)
		}
		group.Wait() // it has not the calls
	})
}
