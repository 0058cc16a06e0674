package rdma

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/lease"
)

// TestRXE_LeaseRequestLimits: a peer that keeps to the limits is never refused, and never loses its connection: as many
// goroutines as there may be leases request memory and return it at once, twice as many as may have a request without a
// reply.
func TestRXE_LeaseRequestLimits(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, nil)
	requests := 200
	if r := testutil.NeedRXE(t); !r.Emulated && !r.Hardware && !testutil.Full() {
		requests = 70 // SoftRoCE registers slowly
	}
	for _, askers := range []int{1, 2 * lease.RequestsMost} {
		var mu sync.Mutex
		conns := make(map[*Conn]bool)
		a, b := leaseConns(t, server, client, &LeaseOptions{MaxLeases: askers, MaxBytes: int64(askers) * 100,
			OnRequest: func(r *LeaseRequest) (*Lease, error) {
				m, err := server.Pool().Get(int(r.Bytes))
				if err != nil {
					return nil, err
				}
				defer m.Release()
				s, err := r.Lend(m, r.Access, 0)
				mu.Lock()
				conns[r.Conn] = true
				mu.Unlock()
				if r.Peer != r.Conn.RemoteAddr() {
					t.Errorf("a request of %v", r.Peer)
				}
				if askers > 1 {
					time.Sleep(100 * time.Microsecond) // the reply is on its way
				}
				return s, err
			}}, &LeaseOptions{})
		var wg sync.WaitGroup
		for range askers {
			wg.Go(func() {
				for range requests / askers {
					r, err := a.Request(timeout(t), 100, MayWrite, 0)
					if err == nil {
						err = r.Return(timeout(t))
					}
					if err != nil {
						t.Errorf("%d askers: %v", askers, err)
						return
					}
				}
			})
		}
		wg.Wait()
		mu.Lock()
		if len(conns) != 1 || !conns[b] {
			t.Errorf("LeaseRequest.Conn is not what Accept has returned: %d pointers", len(conns))
		}
		mu.Unlock()
		ok(t, a.Close())
		ok(t, b.Close())
	}
}

// TestRXE_LeaseExtendOften extends a lease as fast as it can: the peer knows the last end.
func TestRXE_LeaseExtendOften(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
	defer a.Close()
	defer b.Close()
	s, r := lend(t, a, b, buffer(t, client, 100), allAccess, time.Minute)
	ctx := context.Background()
	for i := range 3 * controlQueue {
		ok(t, s.Extend(ctx, time.Minute+time.Duration(i)*time.Millisecond))
	}
	last := time.Now().Add(20 * time.Minute)
	ok(t, s.Extend(ctx, 20*time.Minute))
	testutil.Eventually(t, "the last end", func() bool { return r.Ends().After(last.Add(-time.Second)) })
	ok(t, a.Err())
	ok(t, r.Return(ctx))
}
