package rdma

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/rdma/internal/lease"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestExtendMerges: however often a lease is extended while the peer takes nothing in, one EXTEND waits. When it is
// sent, it has the newest end.
func TestExtendMerges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fakeLink(time.Second)
		s := fakeLease(l, time.Minute)
		defer func() { s.timer.Stop() }()
		for i := range 3 * controlQueue {
			ok(t, s.Extend(t.Context(), time.Minute+time.Duration(i)*time.Millisecond))
		}
		if n := l.Queue.Told(); n != 1 || l.End.Ending {
			t.Fatalf("%d frames wait, ended %v", n, l.End.Ending)
		}
		time.Sleep(10 * time.Second)
		want := time.Minute + (3*controlQueue-1)*time.Millisecond - 10*time.Second
		c := nextTold(l)
		got := time.Duration(wire.ParseNumber(c.Payload())) * time.Millisecond
		if c.Kind != wire.Extend || got != want {
			t.Errorf("%v of %v, want an EXTEND of %v", c.Kind, got, want)
		}
		ok(t, s.Extend(t.Context(), time.Hour))
		wantKinds(t, l, wire.Extend)
	})
}

// fakeRequest has the peer ask for memory.
func fakeRequest(l *link.Link, number uint16) {
	f := wire.RequestFrame{Bytes: 1, Access: uint8(MayRead)}
	c := f.Encode(number)
	h := wire.Header{Kind: wire.Request, Aux: uint32(number), Length: uint32(len(c.Payload()))}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	leasingOf(l).Receive(h, c.Payload())
}

// TestRequestPlaces: the place of a request is free before its reply is sent, although OnRequest still runs. No lock is
// held meanwhile. The requests that come before the connection is there wait for it, and know the peer.
func TestRequestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fakeLink(time.Second)
		hold, asked := make(chan struct{}), 0
		leasingOf(l).opt.OnRequest = func(_ context.Context, r *LeaseRequest) (*Lease, error) {
			l.Mu.Lock()
			asked++
			// As at the end of Lend.
			leasingOf(l).reply(r)
			c := connOf(l)
			waiting := leasingOf(l).lends.desk.Open
			l.Mu.Unlock()
			if r.Conn != c || r.Peer != l.Remote {
				t.Errorf("a request of %p, %v", r.Conn, r.Peer)
			}
			if waiting >= lease.RequestsMost {
				t.Errorf("%d requests wait for a reply", waiting)
			}
			<-hold
			return nil, nil
		}
		for i := range lease.RequestsMost {
			fakeRequest(l, uint16(i+1))
		}
		synctest.Wait()
		if asked != 0 {
			t.Fatal("OnRequest runs before the connection is there")
		}
		l.Mu.Lock()
		l.Started = true
		leasingOf(l).beginDecide()
		l.Mu.Unlock()
		synctest.Wait()
		fakeRequest(l, lease.RequestsMost+1) // the first one has its reply
		if leasingOf(l).lends.desk.Open != lease.RequestsMost || l.End.Ending {
			t.Fatalf("%d requests wait, ended %v: %v", leasingOf(l).lends.desk.Open, l.End.Ending, l.End.Cause)
		}
		close(hold)
		synctest.Wait()
		if asked != lease.RequestsMost+1 || leasingOf(l).lends.desk.Open != 0 {
			t.Errorf("%d requests were decided, %d wait", asked, leasingOf(l).lends.desk.Open)
		}
	})
}

// TestLendWaits: a lease that exceeds the limits only because others are ending waits for them, as long as its bound
// allows; if there were no room then either, it fails at once.
func TestLendWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fakeLink(time.Second)
		m := leasingOf(l)
		m.opt.MaxLeases, m.opt.MaxBytes = 2, 10
		m.lends.ledger = lease.NewLedger(10, 2)
		newLease := func(n int64) *Lease { return &Lease{l: l, n: n, done: make(chan struct{})} }
		a, b := newLease(6), newLease(4)
		ok(t, leasingOf(l).waitLease(turn.Bound{}, a))
		ok(t, leasingOf(l).waitLease(turn.Bound{}, b))
		var limit *ibv.LimitError
		refused := func(n int64) {
			t.Helper()
			began := time.Now()
			if err := leasingOf(l).waitLease(turn.Bound{}, newLease(n)); !errors.As(err, &limit) ||
				time.Since(began) != 0 {
				t.Errorf("a lease of %d: %v after %v", n, err, time.Since(began))
			}
		}
		refused(1)
		l.Mu.Lock()
		a.term.State = lease.Ending
		m.lends.ledger.End(a.n)
		l.Mu.Unlock()
		refused(7) // 6 are ending
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := leasingOf(l).waitLease(turn.Bound{Ctx: short}, newLease(1)); err != context.DeadlineExceeded {
			t.Errorf("waiting with a bound: %v", err)
		}
		waited := make(chan error)
		go func() { waited <- leasingOf(l).waitLease(turn.Bound{}, newLease(6)) }()
		synctest.Wait()
		l.Mu.Lock()
		leasingOf(l).forget(a)
		l.Mu.Unlock()
		ok(t, <-waited)
		if led := &m.lends.ledger; len(m.lends.open) != 2 || led.Open.N != 2 || led.Open.Bytes != 10 {
			t.Errorf("%d leases, %d, of %d bytes", len(m.lends.open), led.Open.N, led.Open.Bytes)
		}
	})
}

// TestLeaseFlood: an owner that lends and takes back while the peer takes nothing in gets an error. The
// connection stays.
func TestLeaseFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fakeLink(time.Millisecond)
		var limit *ibv.LimitError
		for i := range controlQueue {
			s := &Lease{l: l, mem: fakePinned(l.Shard.Engine.Pool), n: 1, done: make(chan struct{})}
			l.Mu.Lock()
			err := leasingOf(l).addLease(s)
			if err == nil {
				s.term.Begin(time.Now().Add(time.Hour))
				s.timer = time.AfterFunc(time.Hour, s.expire)
				s.number = leasingOf(l).lends.next
				leasingOf(l).lends.next++
				f := wire.LendFrame{}
				leasingOf(l).tell(f.Encode(s.number))
				s.revoke(ErrRevoked)
			}
			l.Mu.Unlock()
			if err != nil {
				if !errors.As(err, &limit) || limit.Limit != controlQueue/2 || i != controlQueue/4 {
					t.Errorf("lease %d: %v", i, err)
				}
				break
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if !deadline.IsClosed(s.done) {
				t.Fatal("a lease has not ended")
			}
		}
		if limit == nil || l.End.Ending {
			t.Errorf("no limit; ended %v", l.End.Ending)
		}
	})
}
