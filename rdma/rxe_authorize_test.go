package rdma

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// TestRXE_Authorize permits and refuses by the peer's address and private data, before the peer has a reply.
func TestRXE_Authorize(t *testing.T) {
	server, client := newEngines(t, nil)
	r := testutil.NeedRXE(t)
	peer := netip.MustParseAddr(r.IP[1])
	authorize := func(_ context.Context, q ConnRequest) error {
		if q.RemoteAddr.Addr() != peer || q.LocalAddr.Addr() != netip.MustParseAddr(r.IP[0]) {
			t.Errorf("a request from %v to %v", q.RemoteAddr, q.LocalAddr)
		}
		if len(q.PrivateData) != wire.AppDataLen || !strings.HasPrefix(string(q.PrivateData), "open sesame\x00") {
			return errors.New("another password")
		}
		return nil
	}
	l, err := Listen(timeout(t), r.IP[0]+":0", &Options{Engine: server, Authorize: authorize})
	ok(t, err)
	defer l.Close()
	opt := from(r, client)
	for _, c := range []struct {
		data    string
		refused bool
	}{{"open sesame", false}, {"", true}, {"open sesam", true}, {"open sesame", false}} {
		opt.PrivateData = []byte(c.data)
		a, err := Dial(timeout(t), l.Addr().String(), opt)
		if c.refused {
			var e *RejectError
			if !errors.As(err, &e) || e.Reason != RejectedByAuthorize || !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("with %q: %v, want RejectedByAuthorize", c.data, err)
			}
			continue
		}
		ok(t, err)
		b, err := l.Accept(timeout(t))
		ok(t, err)
		ok(t, a.Close())
		ok(t, b.Close())
	}
	if n := server.Stats().Refused; n != 2 {
		t.Errorf("Refused is %d, want 2", n)
	}
}

// TestRXE_AuthorizeWaits has calls of Authorize that do not return. Others go on, the peer hears of it when the time is
// over, and Close does not wait for them.
func TestRXE_AuthorizeWaits(t *testing.T) {
	server, client := newEngines(t, nil)
	r := testutil.NeedRXE(t)
	called, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	authorize := func(ctx context.Context, q ConnRequest) error {
		if q.PrivateData[0] == 0 {
			return nil
		}
		close(called)
		<-ctx.Done()
		<-release
		defer close(ended)
		return nil
	}
	l, err := Listen(timeout(t), r.IP[0]+":0", &Options{Engine: server, Authorize: authorize})
	ok(t, err)
	s := newStrangers(t)
	p := stranger(wire.Messages)
	p.PrivateData[wire.HelloLen-wire.AppDataLen] = 1
	id := s.ask(l.Addr(), p)
	<-called
	a, err := Dial(timeout(t), l.Addr().String(), from(r, client))
	ok(t, err)
	b, err := l.Accept(timeout(t))
	ok(t, err)
	ok(t, a.Close())
	ok(t, b.Close())
	ok(t, l.Close())
	close(release)
	<-ended
	wantReason(t, s.wait(id, rdmacm.EventRejected), wire.RejectClosed)
}

// TestRXE_AuthorizeLate refuses a peer for which Authorize takes too long, and lets Authorize close its listener.
func TestRXE_AuthorizeLate(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, nil)
	r := testutil.NeedRXE(t)
	var l *Listener
	set, closed := make(chan struct{}), make(chan error, 1)
	l, err := Listen(timeout(t), r.IP[0]+":0", &Options{Engine: server, Timeout: 50 * time.Millisecond,
		Authorize: func(ctx context.Context, q ConnRequest) error {
			<-set
			if q.PrivateData[0] == 1 {
				closed <- l.Close()
				return nil
			}
			<-ctx.Done()
			return nil
		}})
	ok(t, err)
	close(set)
	opt := from(r, client)
	for i, want := range []RejectReason{RejectedLate, RejectedClosed} {
		opt.PrivateData = []byte{byte(i)}
		_, err = Dial(timeout(t), l.Addr().String(), opt)
		var e *RejectError
		if !errors.As(err, &e) || e.Reason != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	ok(t, <-closed)
}
