package rdma

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestRXE_RequestContext: a context ends a Lend that waits, and a Lend that failed may be repeated. OnRequest's context
// ends when OnRequest returns, but not when the peer gives its request up.
func TestRXE_RequestContext(t *testing.T) {
	server, client := newEngines(t, nil)
	mem := buffer(t, server, 100)
	var asked context.Context
	var lent *Lease
	decided := make(chan error, 1)
	gaveUp := make(chan struct{})
	onRequest := func(ctx context.Context, r *LeaseRequest) (_ *Lease, err error) {
		defer func() { decided <- err }()
		asked = ctx
		if r.Bytes == 2 {
			<-gaveUp
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			lent, err = r.Lend(ctx, mem, MayRead, 0)
			return lent, err
		}
		l := r.Conn.l
		l.Mu.Lock() // a lease that is being taken from the peer
		leasingOf(l).lends.ledger.Add(1)
		leasingOf(l).lends.ledger.End(1)
		l.Mu.Unlock()
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		for range 2 { // while Lend waits, and before
			if _, err := r.Lend(short, mem, MayRead, 0); !errors.Is(err, context.DeadlineExceeded) {
				return nil, errors.Join(errors.New("a Lend that waited too long"), err)
			}
		}
		l.Mu.Lock()
		leasingOf(l).lends.ledger.Ended(1)
		l.Mu.Unlock()
		lent, err = r.Lend(ctx, mem, MayRead, 0)
		return lent, err
	}
	a, b := leaseConns(t, server, client, &LeaseOptions{MaxLeases: 1, OnRequest: onRequest}, &LeaseOptions{})
	defer b.CloseNow()
	defer a.CloseNow()
	r, err := a.Request(timeout(t), 1, MayRead, 0)
	ok(t, err)
	ok(t, <-decided)
	<-asked.Done()
	ok(t, r.Return(timeout(t)))
	_, err = lent.Wait(timeout(t))
	ok(t, err)

	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := a.Request(short, 2, MayRead, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request that is given up: %v", err)
	}
	close(gaveUp)
	ok(t, <-decided)
	_, err = lent.Wait(timeout(t)) // it is returned at once
	ok(t, err)
}

// TestRXE_RequestContextEnds: OnRequest's context ends once nothing can be lent, whichever end closes the connection.
func TestRXE_RequestContextEnds(t *testing.T) {
	server, client := newEngines(t, nil)
	for name, end := range map[string]func(a, b *Conn) error{
		"the borrower's Close":    func(a, _ *Conn) error { return a.Close() },
		"the borrower's CloseNow": func(a, _ *Conn) error { return a.CloseNow() },
		"the owner's Close":       func(_, b *Conn) error { return b.Close() },
		"the owner's CloseNow":    func(_, b *Conn) error { return b.CloseNow() },
	} {
		began, ended := make(chan struct{}), make(chan struct{})
		a, b := leaseConns(t, server, client, &LeaseOptions{
			OnRequest: func(ctx context.Context, _ *LeaseRequest) (*Lease, error) {
				close(began)
				<-ctx.Done()
				close(ended)
				return nil, ctx.Err()
			}}, &LeaseOptions{})
		requested := make(chan error, 1)
		go func() { _, err := a.Request(timeout(t), 1, MayRead, 0); requested <- err }()
		<-began
		ok(t, end(a, b))
		select {
		case <-ended:
		case <-timeout(t).Done():
			t.Errorf("%s does not end the context of OnRequest", name)
		}
		if err := <-requested; err == nil {
			t.Errorf("%s: the request was granted", name)
		}
		_, _ = a.CloseNow(), b.CloseNow()
	}
}
