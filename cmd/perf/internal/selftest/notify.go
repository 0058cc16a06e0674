package selftest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// notifyStep is step 6.
func notifyStep(s *stage) {
	for _, path := range paths {
		n := s.opt.Wakeups
		if path == ibv.DataPathOps {
			n = max(n/10, 100)
		}
		s.check(fmt.Sprintf("two goroutines that sleep for each message, %v", path),
			func(b *box) { pingPong(b, path, n/2) })
		s.check(fmt.Sprintf("arm, send, event, %v", path), func(b *box) { armed(b, path, n/2) })
	}
}

// pingPong has two ends wait for each other in CQ.Wait, without spinning: each message races with the arming.
func pingPong(b *box, path ibv.DataPath, n uint64) {
	ends := [2]*side{b.side(0, 4096, path, nil), b.side(1, 4096, path, nil)}
	for _, e := range ends {
		e.cq = own(e.dev.CreateCQ(64, &ibv.CQOptions{DataPath: path, Spin: ibv.None}))(b)
		e.newQP(ibv.QPOptions{MaxSendWR: 64, MaxRecvWR: 16}, 0)
	}
	connect(ends[0], ends[1], ends[0].qp, ends[1].qp, nil)
	for _, e := range ends {
		for i := range uint64(8) {
			b.recv(e.qp, i, e.mr.SGE(0, 8))
		}
	}
	b.engine(ends[0].qp)
	ctx, cancel := context.WithCancelCause(b.ctx)
	defer cancel(nil)
	var counts [2]atomic.Uint64
	var errs [2]error
	var wg sync.WaitGroup
	began := time.Now()
	for i, e := range ends {
		wg.Go(func() {
			if errs[i] = e.bounce(ctx, n, i == 0, &counts[i]); errs[i] != nil {
				cancel(errs[i])
			}
		})
	}
	moved := func() uint64 { return counts[0].Load() + counts[1].Load() }
	watch(ctx, &wg, b.opt.watchdog(), moved, func(uint64) {
		b.note("both ends slept for %v after %d and %d messages; completions there, which no event announced: "+
			"%d and %d", b.opt.watchdog(), counts[0].Load(), counts[1].Load(), left(ends[0].cq), left(ends[1].cq))
		cancel(errors.New("a wake-up was lost; see the notes"))
	})
	b.check.Count = moved()
	if b.check.Count < 2*n {
		b.check.Wanted = 2 * n
	}
	b.figure("microseconds_each", time.Since(began).Seconds()*1e6/float64(max(b.check.Count, 1)))
	if cause := context.Cause(ctx); cause != nil && b.ctx.Err() == nil {
		b.fail("%w", cause)
	}
}

// left returns how many completions a CQ has.
func left(cq *ibv.CQ) int {
	var wcs [64]ibv.WC
	n, _ := cq.Poll(wcs[:])
	return n
}

// bounce receives n messages, and sends one for each; first, if this end begins.
func (s *side) bounce(ctx context.Context, n uint64, first bool, count *atomic.Uint64) error {
	var wcs [16]ibv.WC
	wr := []ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled, SGEs: []ibv.SGE{s.mr.SGE(64, 8)}}}
	recv := []ibv.RecvWR{{SGEs: []ibv.SGE{s.mr.SGE(0, 8)}}}
	send := func() error { _, err := s.qp.PostSend(wr); return err }
	if first {
		if err := send(); err != nil {
			return err
		}
	}
	sent := uint64(0)
	for got := uint64(0); got < n; {
		k, err := s.cq.Wait(ctx, wcs[:])
		if err != nil {
			return err
		}
		for i := range wcs[:k] {
			if err := wcs[i].Err(); err != nil {
				return err
			}
			if !wcs[i].Opcode.IsRecv() {
				continue
			}
			if _, err := s.qp.PostRecv(recv); err != nil {
				return err
			}
			got++
			count.Add(1)
			// The end that began does not reply to the last one.
			if sent++; sent < n || !first {
				if err := send(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// armed arms an empty CQ, and sends a message: there must be an event, and then the completion.
func armed(b *box, path ibv.DataPath, n uint64) {
	x, y := b.side(0, 4096, path, nil), b.side(1, 4096, path, nil)
	connect(x, y, x.newQP(ibv.QPOptions{}, 0), y.newQP(ibv.QPOptions{}, 0), nil)
	b.engine(y.qp)
	var wcs [4]ibv.WC
	began := time.Now()
	for b.check.Count < n && b.ctx.Err() == nil {
		b.recv(y.qp, b.check.Count, y.mr.SGE(0, 8))
		seen := y.cq.Events()
		b.ok(y.cq.Arm(false))
		if k := must(y.cq.Poll(wcs[:]))(b); k != 0 {
			b.fail("after %d: %d completions before anything was sent", b.check.Count, k)
		}
		x.post(ibv.SendWR{ID: b.check.Count, Opcode: ibv.OpSend, Flags: ibv.Signaled, SGEs: []ibv.SGE{x.mr.SGE(0, 8)}})
		ctx, cancel := context.WithTimeout(b.ctx, b.opt.watchdog())
		err := y.cq.WaitEvent(ctx, seen)
		cancel()
		k := must(y.cq.Poll(wcs[:]))(b)
		switch {
		case err != nil && b.ctx.Err() != nil:
		case err != nil:
			b.fail("after %d: no event in %v, and %d completions: %w", b.check.Count, b.opt.watchdog(), k, err)
		case k != 1 || wcs[0].ID != b.check.Count || wcs[0].Status != ibv.WCSuccess:
			b.fail("after %d: an event, and %d completions: %+v", b.check.Count, k, wcs[0])
		}
		x.good(b.check.Count)
		b.check.Count++
	}
	if b.check.Count < n {
		b.check.Wanted = n
	}
	b.figure("microseconds_each", time.Since(began).Seconds()*1e6/float64(max(b.check.Count, 1)))
}
