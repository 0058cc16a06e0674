package ibv

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/loader"
)

// Hammers run short: what they look for shows under the race detector, or as a
// completion that is lost, counted twice or delivered to a closed queue.

const hammerTime = 300 * time.Millisecond

// Several goroutines post to one QP, with PostSend and Batch, while others poll
// and wait: every completion arrives once.
func TestFake_HammerPostAndPoll(t *testing.T) {
	s := fakeLoop(t, nil, &QPOptions{MaxSendWR: 64, MaxInline: 32})
	var (
		wg       sync.WaitGroup
		posted   atomic.Int64
		seen     atomic.Int64
		sum, got atomic.Uint64
		id       atomic.Uint64
		posters  = 4
		stop     = make(chan struct{})
	)
	time.AfterFunc(hammerTime, func() { close(stop) })
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	take := func(n, total int, first uint64) {
		posted.Add(int64(n))
		for i := range uint64(n) {
			sum.Add(first + i)
		}
		if n < total {
			runtime.Gosched() // full: let the pollers work
		}
	}
	full := func(err error) {
		if err != nil && !errors.Is(err, ErrQueueFull) {
			t.Error(err)
		}
	}
	var posting sync.WaitGroup
	for p := range posters {
		posting.Go(func() {
			wrs := make([]SendWR, 8)
			for !stopped() {
				first := id.Add(8)
				if p%2 == 0 {
					for i := range wrs {
						wrs[i] = write(s, first+uint64(i), Signaled)
					}
					n, err := s.qp.PostSend(wrs)
					full(err)
					take(n, 8, first)
					continue
				}
				b := s.qp.Batch()
				for i := range uint64(8) {
					b.WriteInline(first+i, Signaled, []byte{1, 2, 3}, s.mr.Remote().At(uint64(p)*64))
				}
				err := b.Post()
				full(err)
				n := 8
				var pe *PostError
				if errors.As(err, &pe) {
					n = pe.Accepted
				}
				take(n, 8, first)
			}
		})
	}
	ctx, cancel := context.WithCancel(timeout(t))
	count := func(wcs []WC) {
		for i := range wcs {
			if err := wcs[i].Err(); err != nil {
				t.Error(err)
			}
			got.Add(wcs[i].ID)
		}
		seen.Add(int64(len(wcs)))
	}
	for range 2 {
		wg.Go(func() {
			wcs := make([]WC, 16)
			for {
				n, err := s.cq.Wait(ctx, wcs)
				count(wcs[:n])
				if err != nil {
					return
				}
			}
		})
	}
	wg.Go(func() {
		wcs := make([]WC, 5)
		for ctx.Err() == nil {
			n, err := s.cq.Poll(wcs)
			if err != nil {
				t.Error(err)
			}
			count(wcs[:n])
			runtime.Gosched()
		}
	})
	posting.Wait()
	for deadline := time.Now().Add(testutil.Patience); seen.Load() < posted.Load() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	wg.Wait()
	if seen.Load() != posted.Load() || got.Load() != sum.Load() {
		t.Errorf("%d posted, %d completed; sum of ids %d and %d", posted.Load(), seen.Load(), sum.Load(), got.Load())
	}
	t.Logf("%d work requests", posted.Load())
}

// Objects are closed while others post to them, poll and wait for them: calls
// end with ErrClosed, and nothing touches what C has freed (the fake library
// overwrites it).
func TestFake_HammerClose(t *testing.T) { testHammerClose(t) }

func testHammerClose(t *testing.T) {
	s := fakeSide(t, nil)
	rounds := 0
	for end := time.Now().Add(hammerTime); time.Now().Before(end); rounds++ {
		cq := must(s.dev.CreateCQ(4096, &CQOptions{Spin: None}))(t)
		srq := must(s.pd.CreateSRQ(nil))(t)
		qp := must(s.pd.CreateQP(cq, cq, &QPOptions{SRQ: srq, MaxInline: 16}))(t)
		peer := must(s.pd.CreateQP(cq, cq, nil))(t)
		connect(t, qp, peer)
		// The QP's own completions end with it: none may be of another one.
		var wg sync.WaitGroup
		closed := func(what string, err error) bool {
			if err == nil || errors.Is(err, ErrQueueFull) || errors.Is(err, context.DeadlineExceeded) {
				return false
			}
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
			return true
		}
		forever := func(what string, f func() error) {
			wg.Go(func() {
				for !closed(what, f()) {
					runtime.Gosched()
				}
			})
		}
		forever("post send", func() error {
			_, err := qp.PostSend([]SendWR{write(s, 1, Signaled), write(s, 2, 0)})
			return err
		})
		forever("batch", func() error {
			b := qp.Batch()
			b.WriteInline(3, Signaled, []byte{1}, s.mr.Remote().At(0))
			return b.Post()
		})
		forever("post send to the peer",
			func() error { _, err := peer.PostSend([]SendWR{write(s, 4, Signaled)}); return err })
		forever("post srq", func() error { _, err := srq.PostRecv([]RecvWR{{ID: 5}}); return err })
		forever("post recv", func() error { _, err := peer.PostRecv([]RecvWR{{ID: 6}}); return err })
		forever("query", func() error { _, err := qp.Query(MaskState); return err })
		forever("state", func() error {
			if qp.State() == StateUnknown {
				return ErrClosed
			}
			return nil
		})
		forever("poll", func() error { _, err := cq.Poll(make([]WC, 8)); return err })
		for range 2 {
			forever("wait", func() error { _, err := cq.Wait(context.Background(), make([]WC, 8)); return err })
		}
		forever("wait for a while", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			defer cancel()
			_, err := cq.Wait(ctx, make([]WC, 8))
			return err
		})
		forever("arm", func() error { return cq.Arm(rounds%2 == 0) })
		forever("resize", func() error { return cq.Resize(4096) })
		time.Sleep(time.Duration(rounds%5) * time.Millisecond)
		var closing sync.WaitGroup
		for range 2 {
			closing.Go(func() { ok(t, qp.Close()) })
		}
		closing.Go(func() { ok(t, peer.Close()) })
		closing.Wait()
		for range 2 {
			closing.Go(func() { ok(t, srq.Close()) })
			closing.Go(func() { ok(t, cq.Close()) })
		}
		closing.Wait()
		finished := make(chan struct{})
		go func() { wg.Wait(); close(finished) }()
		select {
		case <-finished:
		case <-time.After(testutil.Patience):
			buf := make([]byte, 1<<16)
			t.Fatalf("calls on closed objects do not return:\n%s", buf[:runtime.Stack(buf, true)])
		}
	}
	t.Logf("%d rounds", rounds)
}

// The same through the other way into C.
func TestFake_HammerFallback(t *testing.T) {
	needFake(t)
	inChild(t, os.Getenv(loader.PathEnv), []string{ccall.Env + "=fallback"}, testHammerClose)
}

// Whole trees are made and closed at a time, with parents that refuse to close
// before their children.
func TestFake_HammerTrees(t *testing.T) {
	leavesNothing(t)
	d := must(Open("fake0"))(t)
	pd := must(d.AllocPD())(t)
	var wg sync.WaitGroup
	end := time.Now().Add(hammerTime)
	for range 4 {
		wg.Go(func() {
			for time.Now().Before(end) {
				cq, err := d.CreateCQ(16, nil)
				if err != nil {
					t.Error(err)
					return
				}
				mr, err := pd.AllocMR(4096, LocalWrite, nil)
				if err != nil {
					t.Error(err)
				}
				qp, err := pd.CreateQP(cq, cq, nil)
				if err != nil {
					t.Error(err)
				}
				var be *BusyError
				if err := pd.Close(); !errors.As(err, &be) {
					t.Errorf("close of a PD in use: %v", err)
				}
				if err := cq.Close(); !errors.As(err, &be) {
					t.Errorf("close of a CQ in use: %v", err)
				}
				for _, x := range []interface{ Close() error }{qp, mr, cq} {
					if err := x.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	// Closing the Device while its CQs come and go must not take the channel
	// away from them.
	wg.Go(func() {
		for time.Now().Before(end) {
			var be *BusyError
			if err := d.Close(); !errors.As(err, &be) {
				t.Errorf("close of a context in use: %v", err)
				return
			}
			runtime.Gosched()
		}
	})
	wg.Wait()
	ok(t, pd.Close())
	ok(t, d.Close())
}

// Waiters for async events, and the device closed under them.
func TestFake_HammerAsync(t *testing.T) {
	leavesNothing(t)
	for range 20 {
		d := must(Open("fake0"))(t)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i+1)*200*time.Microsecond)
					ev, err := d.AsyncEvent(ctx)
					cancel()
					if errors.Is(err, ErrClosed) {
						return
					}
					if err == nil && ev.Type != EventPortErr || err != nil &&
						!errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("event %v: %v", ev.Type, err)
					}
				}
			})
		}
		for range 10 {
			ok(t, needFake(t).Void("fv_async", d.handle, uintptr(EventPortErr), 1))
			time.Sleep(100 * time.Microsecond)
		}
		ok(t, d.Close())
		wg.Wait()
	}
}
