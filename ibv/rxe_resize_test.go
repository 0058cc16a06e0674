package ibv

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// loop is a QP on s that is connected to itself.
func (s *side) loop(t testing.TB, opt *QPOptions) *QP {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	qp := s.newQP(t, opt)
	ok(t, qp.Connect(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
	return qp
}

// TestRXE_Resize: completions that nobody polled move along, in order, whatever the place where the ring wraps.
func TestRXE_Resize(t *testing.T) {
	for _, fields := range []WCFields{0, FieldsStandard} {
		s := newSide(t, 0, &CQOptions{Fields: fields})
		qp := s.loop(t, &QPOptions{MaxSendWR: 512})
		var id, polled uint64
		posts := func(n int) {
			t.Helper()
			for range n {
				post(t, qp, SendWR{ID: id, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 8)},
					Remote: s.mr.Remote().At(64)})
				id++
			}
			// A read comes after all of them.
			post(t, qp, SendWR{ID: id, Opcode: OpRead, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 8)},
				Remote: s.mr.Remote().At(64)})
			id++
		}
		take := func(n uint64) {
			t.Helper()
			for range n {
				s.good(t, polled)
				polled++
			}
		}
		rng := rand.New(rand.NewPCG(11, 12))
		for round := range 60 {
			posts(rng.IntN(60))
			take(rng.Uint64N(id - polled + 1))
			size := 130 + rng.IntN(1000)
			if err := s.cq.Resize(size); err != nil {
				t.Fatalf("round %d: to %d: %v", round, size, err)
			}
			if got := s.cq.Cap().CQE; got < size || got > 2*size {
				t.Fatalf("round %d: %d entries, asked for %d", round, got, size)
			}
			take(rng.Uint64N(id - polled + 1))
			if id-polled > 60 {
				take(id - polled)
			}
		}
		take(id - polled)
		if n := drain(t, s.cq); n != 0 {
			t.Fatalf("%d completions too many", n)
		}

		for range 10 { // each is there when its event is
			seen := s.cq.events.Load()
			ok(t, s.cq.Arm(false))
			posts(0)
			ok(t, s.cq.WaitEvent(timeout(t), seen))
		}
		wantErr(t, s.cq.Resize(5), syscall.EINVAL)
		wantErr(t, s.cq.Resize(0), nil, "cqe is 0")
		wantErr(t, s.cq.Resize(-1), nil, "cqe is -1")
		var le *LimitError
		if err := s.cq.Resize(s.dev.attr.MaxCQE + 1); !errors.As(err, &le) {
			t.Errorf("beyond the device: %v", err)
		}
		take(id - polled)
		ok(t, s.cq.Resize(600))
		posts(50)
		ok(t, qp.Close()) // its completions go, from wherever the ring is now
		if n := drain(t, s.cq); n != 0 {
			t.Errorf("%d completions of a closed QP", n)
		}
		ok(t, s.cq.Close())
		wantErr(t, s.cq.Resize(10), ErrClosed)
	}
}

// TestRXE_ResizeBeside resizes a CQ that others post to, poll and wait for: none is lost, none comes twice.
func TestRXE_ResizeBeside(t *testing.T) {
	s := newSide(t, 0, &CQOptions{Spin: None})
	qp := s.loop(t, &QPOptions{MaxSendWR: 64})
	total := uint64(10_000)
	if r := testutil.NeedRXE(t); !r.Emulated && !r.Hardware && !testutil.Full() {
		total = 2000 // SoftRoCE is slow
	}
	var done atomic.Bool
	// libmlx5 tells the device only when it polls that the entry which ends a ring is free again.
	var resized, polls, polled atomic.Int64
	poster := make(chan error, 1)
	go func() {
		for id := uint64(0); id < total && !done.Load(); {
			if int64(id)-polled.Load() > 48 { // no more than the smallest CQ holds
				runtime.Gosched()
				continue
			}
			var wrs [8]SendWR
			n := min(len(wrs), int(total-id))
			for i := range wrs[:n] {
				wrs[i] = SendWR{ID: id + uint64(i), Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 8)},
					Remote: s.mr.Remote().At(64)}
			}
			n, err := qp.PostSend(wrs[:n])
			id += uint64(n)
			if err != nil && !errors.Is(err, ErrQueueFull) {
				poster <- err
				return
			}
			runtime.Gosched()
		}
		poster <- nil
	}()
	resizer := make(chan error, 1)
	go func() {
		sizes := [...]int{100, 700, 300, 64, 2000, 128}
		for i := 0; !done.Load(); i++ {
			if err := s.cq.Resize(sizes[i%len(sizes)]); err != nil {
				resizer <- err
				return
			}
			resized.Add(1)
			for seen := polls.Load(); polls.Load() == seen && !done.Load(); {
				runtime.Gosched()
			}
		}
		resizer <- nil
	}()
	ctx := timeout(t)
	var wcs [16]WC
	for next := uint64(0); next < total; {
		poll := s.cq.Poll
		if next%3 == 0 {
			poll = func(wcs []WC) (int, error) { return s.cq.Wait(ctx, wcs) }
		}
		n, err := poll(wcs[:])
		if err != nil {
			done.Store(true)
			t.Fatalf("after %d: %v", next, err)
		}
		for _, wc := range wcs[:n] {
			if wc.Status != WCSuccess || wc.ID != next {
				done.Store(true)
				t.Fatalf("completion %d is %+v", next, wc)
			}
			next++
		}
		polls.Add(1)
		polled.Store(int64(next))
	}
	testutil.Eventually(t, "a resize", func() bool { return resized.Load() > 0 })
	done.Store(true)
	ok(t, <-poster)
	ok(t, <-resizer)
	if n := drain(t, s.cq); n != 0 {
		t.Errorf("%d completions too many", n)
	}
	t.Logf("resized %d times", resized.Load())
}
