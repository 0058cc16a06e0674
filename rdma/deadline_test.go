package rdma

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// fakeLink is a connection with leases that never started: what it would send stays in its queues.
func fakeLink(grace time.Duration) *link.Link {
	m := newLeasing(&LeaseOptions{Grace: grace})
	m.l = fakeLinkOf(wire.Hello{}, wire.Messages, &m.Control)
	return m.l
}

// told returns the kinds of the frames about leases that wait to be sent, and forgets them.
func toldKinds(l *link.Link) (kinds []wire.Kind) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for l.Queue.Told() > 0 {
		kinds = append(kinds, nextTold(l).Kind)
	}
	return kinds
}

// nextTold takes the next frame about leases from the queue.
func nextTold(l *link.Link) wire.Control {
	leasingOf(l).Freshen()
	c := *l.Queue.FirstTold()
	l.Queue.Begin(sendq.Gates{Control: 1})
	l.Queue.Add(l.Queue.Pick(), wire.Header{})
	l.Queue.Release(l.Queue.Posted, l.Queue.Posted)
	return c
}

func wantKinds(t *testing.T, l *link.Link, want ...wire.Kind) {
	t.Helper()
	got := toldKinds(l)
	if len(got) != len(want) {
		t.Fatalf("frames %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("frames %v, want %v", got, want)
		}
	}
}

// fakeLease lends nothing for d, as lend does.
func fakeLease(l *link.Link, d time.Duration) *Lease {
	s := &Lease{l: l, mem: fakePinned(l.Shard.Engine.Pool), n: 1, access: MayRead, done: make(chan struct{})}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err := leasingOf(l).addLease(s); err != nil {
		panic(err)
	}
	s.term.Begin(time.Now().Add(d))
	leasingOf(l).lends.known[s.number] = s
	s.timer = time.AfterFunc(d, s.expire)
	return s
}

// TestLeaseTimes looks at when a lease ends, to the nanosecond.
func TestLeaseTimes(t *testing.T) {
	const d, grace = time.Minute, 3 * time.Second
	ctx := context.Background()
	for _, c := range []struct {
		name string
		run  func(*testing.T, *link.Link, *Lease)
	}{
		{"expiry", func(t *testing.T, l *link.Link, s *Lease) {
			time.Sleep(d - 1)
			synctest.Wait()
			wantKinds(t, l)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			wantKinds(t, l, wire.Revoke)
			time.Sleep(grace - 1)
			synctest.Wait()
			if deadline.IsClosed(s.done) {
				t.Error("the lease has ended before Grace")
			}
			time.Sleep(time.Nanosecond)
			if _, err := s.Wait(ctx); !errors.Is(err, ErrExpired) || !s.term.Forced {
				t.Errorf("Wait: %v", err)
			}
		}},
		{"extended", func(t *testing.T, l *link.Link, s *Lease) {
			time.Sleep(d / 2)
			ok(t, s.Extend(ctx, d))
			wantKinds(t, l, wire.Extend)
			time.Sleep(d - 1)
			synctest.Wait()
			wantKinds(t, l)
			if err := s.Extend(ctx, 0); err != nil { // the longest, an hour
				t.Error(err)
			}
			wantKinds(t, l, wire.Extend)
			time.Sleep(time.Hour)
			synctest.Wait()
			wantKinds(t, l, wire.Revoke)
			if err := s.Extend(ctx, d); !errors.Is(err, ErrExpired) {
				t.Errorf("extending after the end: %v", err)
			}
		}},
		{"returned in time", func(t *testing.T, l *link.Link, s *Lease) {
			done := make(chan error)
			go func() { done <- s.Revoke(ctx) }()
			synctest.Wait()
			wantKinds(t, l, wire.Revoke)
			time.Sleep(grace - 1)
			l.Mu.Lock()
			s.returned(wire.EndedRevoked)
			l.Mu.Unlock()
			ok(t, <-done)
			if s.term.Forced {
				t.Error("it was forced")
			}
		}},
		{"a context that ends while it is revoked", func(t *testing.T, l *link.Link, s *Lease) {
			short, cancel := context.WithTimeout(ctx, grace/2)
			defer cancel()
			began := time.Now()
			if err := s.Revoke(short); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != grace/2 {
				t.Errorf("Revoke: %v after %v", err, time.Since(began))
			}
			if _, err := s.Wait(ctx); !errors.Is(err, ErrRevoked) || time.Since(began) != grace {
				t.Errorf("Wait: %v after %v", err, time.Since(began))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := fakeLink(grace)
				s := fakeLease(l, d)
				c.run(t, l, s)
				s.timer.Stop()
			})
		})
	}
}

// TestRegionTimes looks at when the holder stops: before the owner's end, by a margin.
func TestRegionTimes(t *testing.T) {
	for d, stops := range map[time.Duration]time.Duration{
		time.Minute: time.Minute - 20*time.Millisecond, 40 * time.Millisecond: 30 * time.Millisecond,
		time.Millisecond: 750 * time.Microsecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			l := fakeLink(time.Second)
			l.Mu.Lock()
			leasingOf(l).borrowed(0, &wire.LendFrame{Length: 8, Milliseconds: milliseconds(d), Access: uint8(MayRead)})
			r := leasingOf(l).borrows.regions[0]
			l.Mu.Unlock()
			time.Sleep(stops - 1)
			synctest.Wait()
			wantKinds(t, l)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			wantKinds(t, l, wire.Return)
			if !errors.Is(r.use.Cause, ErrExpired) || !deadline.IsClosed(r.done) {
				t.Errorf("a region of %v: %v", d, r.use.Cause)
			}
		})
	}
}
