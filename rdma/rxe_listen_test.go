package rdma

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/attempts"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/loader"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// strangers are peers that take part in the handshake only as far as they like.
type strangers struct {
	t     *testing.T
	ch    *rdmacm.EventChannel
	early []*rdmacm.Event // that came while another one's was waited for
}

func newStrangers(t *testing.T) *strangers {
	t.Helper()
	testutil.NeedRXE(t)
	ch, err := rdmacm.NewEventChannel()
	ok(t, err)
	t.Cleanup(func() { ok(t, ch.Close()) })
	return &strangers{t: t, ch: ch}
}

// needUnfinished skips a test whose strangers do not finish their handshakes where librdmacm does that for them.
func needUnfinished(t *testing.T) {
	for _, l := range loader.Report().Libraries {
		if v := l.Version; l.Name == loader.RDMACM && (strings.HasPrefix(v, "21.") || strings.HasPrefix(v, "22.")) {
			t.Skip("skipped: librdmacm", v, "confirms each connection when it reads the reply")
		}
	}
}

// ask requests a connection with a queue pair that does not exist.
func (s *strangers) ask(to netip.AddrPort, p *rdmacm.ConnParam) *rdmacm.ID {
	s.t.Helper()
	id := s.resolved(to)
	ok(s.t, id.Connect(p))
	return id
}

// resolved returns an ID that can request a connection.
func (s *strangers) resolved(to netip.AddrPort) *rdmacm.ID {
	s.t.Helper()
	id, err := s.ch.CreateID(rdmacm.PortSpaceTCP)
	ok(s.t, err)
	s.t.Cleanup(func() { ok(s.t, id.Close()) })
	from := netip.AddrPortFrom(netip.MustParseAddr(testutil.NeedRXE(s.t).IP[1]), 0)
	ok(s.t, id.ResolveAddr(from, to, testutil.Patience))
	s.wait(id, rdmacm.EventAddrResolved)
	ok(s.t, id.ResolveRoute(testutil.Patience))
	s.wait(id, rdmacm.EventRouteResolved)
	return id
}

// wait waits for an event of one of them; those of others stay for next.
func (s *strangers) wait(id *rdmacm.ID, want rdmacm.EventType) *rdmacm.Event {
	s.t.Helper()
	for {
		ev, err := s.ch.Event(timeout(s.t))
		ok(s.t, err)
		switch {
		case ev.ID != id:
			s.early = append(s.early, ev)
		case ev.Type != want:
			s.t.Fatalf("the event %v, want %v", ev, want)
		default:
			return ev
		}
	}
}

// next returns the next event of any of them.
func (s *strangers) next() *rdmacm.Event {
	s.t.Helper()
	if len(s.early) > 0 {
		ev := s.early[0]
		s.early = s.early[1:]
		return ev
	}
	ev, err := s.ch.Event(timeout(s.t))
	ok(s.t, err)
	return ev
}

// strangerQPN is the number of the last stranger's queue pair. Each has its own: Linux rejects a second request of one
// that it knows as stale (cm_match_req), and the listener does not hear of it.
var strangerQPN atomic.Uint32

// stranger are the parameters of a request that is in order.
func stranger(kind wire.ConnKind) *rdmacm.ConnParam {
	return &rdmacm.ConnParam{QPN: 0x700000 + strangerQPN.Add(1), PrivateData: goodHello(kind), RetryCount: 7,
		RNRRetryCount: 7}
}

func wantReason(t *testing.T, ev *rdmacm.Event, want wire.RejectReason) {
	t.Helper()
	if r, known := wire.ParseRejection(ev.PrivateData); !known || r.Reason != want {
		t.Errorf("a reject for %v, want %v", r.Reason, want)
	}
}

// untilNoConns waits until an engine has closed its connections.
func untilNoConns(t *testing.T, e *Engine) {
	t.Helper()
	for ctx := timeout(t); e.Stats().Conns > 0; time.Sleep(time.Millisecond) {
		ok(t, ctx.Err())
	}
}

// TestRXE_UnfinishedHandshakes has more strangers than there may be connections. They do not finish their handshakes,
// for an hour. They cost no blocks, and make room for an honest peer.
func TestRXE_UnfinishedHandshakes(t *testing.T) {
	needUnfinished(t)
	for _, kind := range []wire.ConnKind{wire.Messages, wire.Stream} {
		t.Run(kind.String(), func(t *testing.T) {
			server, client := newEngines(t, &EngineOptions{MaxConns: 40})
			l, err := listen(timeout(t), testutil.NeedRXE(t).IP[0]+":0", kind,
				&Options{Engine: server, Timeout: time.Hour})
			ok(t, err)
			defer l.close()
			before := server.Stats()
			s := newStrangers(t)
			for range 30 {
				s.ask(l.addr(), stranger(kind))
			}
			for ctx := timeout(t); server.Stats().Conns < 20; time.Sleep(time.Millisecond) {
				ok(t, ctx.Err())
			}
			after := server.Stats()
			if kind == wire.Messages && (after.Blocks != before.Blocks || after.BlocksPosted != before.BlocksPosted) {
				t.Errorf("blocks of strangers: %+v, before %+v", after, before)
			}
			if most := before.Memory + 2*handshakesLarge*link.LargeEach*link.LargeBlock; after.Memory > most {
				t.Errorf("strangers cost memory: %d bytes, before %d, at most %d", after.Memory, before.Memory, most)
			}
			patience := timeout(t)
			for served := false; !served; { // unless the honest one takes longer than admit.Grace
				opt := from(testutil.NeedRXE(t), client)
				c, err := dial(patience, l.addr().String(), kind, opt, new(attempts.Finish))
				var reject *rdmacm.RejectError
				if errors.As(err, &reject) {
					continue
				}
				ok(t, err)
				ctx, cancel := context.WithCancel(patience)
				go func() {
					<-c.End.Done()
					cancel()
				}()
				if a, err := l.accept(ctx); err == nil {
					served = true
					a.Close()
				}
				c.Close()
			}
			if n := server.Stats().Refused; n == 0 {
				t.Error("nobody was refused")
			}
		})
	}
}

// TestRXE_HandshakeTimeout ends a handshake that its peer does not finish.
func TestRXE_HandshakeTimeout(t *testing.T) {
	needUnfinished(t)
	server, _ := newEngines(t, nil)
	l, err := Listen(timeout(t), testutil.NeedRXE(t).IP[0]+":0",
		&Options{Engine: server, Timeout: 50 * time.Millisecond})
	ok(t, err)
	defer l.Close()
	s := newStrangers(t)
	id := s.ask(l.Addr(), stranger(wire.Messages))
	s.wait(id, rdmacm.EventConnectResponse)
	s.wait(id, rdmacm.EventRejected)
	untilNoConns(t, server)
	if n := server.Stats().Refused; n != 1 {
		t.Errorf("Refused is %d, want 1", n)
	}
}

// TestRXE_Backlog has more clients wait for Accept than handshakes were once under way, and then more than Backlog.
func TestRXE_Backlog(t *testing.T) {
	server, client := newEngines(t, nil)
	r := testutil.NeedRXE(t)
	rows := []struct{ clients, backlog int }{{150, 0}, {6, 2}}
	if !r.Emulated && !r.Hardware { // a handshake may take longer than admit.Grace, which ends it
		rows = rows[:1]
		if !testutil.Full() {
			rows[0].clients = 20
		}
	}
	for _, c := range rows {
		l, err := Listen(timeout(t), r.IP[0]+":0", &Options{Engine: server, Backlog: c.backlog})
		ok(t, err)
		var dials sync.WaitGroup
		list := make(chan *Conn, 2*c.clients)
		for range c.clients {
			dials.Go(func() {
				conn, err := Dial(timeout(t), l.Addr().String(), from(r, client))
				if err != nil {
					t.Error(err)
					return
				}
				list <- conn
			})
		}
		if c.backlog == 0 {
			dials.Wait() // nobody accepts yet
		}
		for range c.clients {
			conn, err := l.Accept(timeout(t))
			ok(t, err)
			list <- conn
		}
		dials.Wait()
		close(list)
		for conn := range list {
			ok(t, conn.Close())
		}
		ok(t, l.Close())
	}
}

// TestRXE_MaxConnsRefuses says at both ends why a server refuses.
func TestRXE_MaxConnsRefuses(t *testing.T) {
	var log bytes.Buffer // this test alone refuses meanwhile
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(old)
	server, client := newEnginesOf(t, func(i int) *EngineOptions { return &EngineOptions{MaxConns: 2 + 10*i} })
	r := testutil.NeedRXE(t)
	l, err := Listen(timeout(t), r.IP[0]+":0", &Options{Engine: server})
	ok(t, err)
	for range 2 {
		c, err := Dial(timeout(t), l.Addr().String(), from(r, client))
		ok(t, err)
		defer c.Close()
	}
	for range 3 {
		_, err = Dial(timeout(t), l.Addr().String(), from(r, client))
		var e *RejectError
		if !errors.As(err, &e) || e.Reason != RejectedMaxConns || strings.Contains(err.Error(), "private data") {
			t.Errorf("a third connection: %v", err)
		}
	}
	ok(t, l.Close())
	if n := server.Stats().Refused; n != 3 {
		t.Errorf("Refused is %d, want 3", n)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "exceeds the limit") {
		t.Errorf("%d lines in the log, want one that names the limit:\n%s", lines, &log)
	}
}

// TestRXE_DialForeign connects to services that are not of this package, or whose reply breaks the protocol. Nothing is
// left: see newEngines.
func TestRXE_DialForeign(t *testing.T) {
	_, client := newEngines(t, &EngineOptions{MaxConns: 3})
	r := testutil.NeedLogic(t)
	for name, reply := range map[string][]byte{
		"none": nil, "text": []byte("220 smtp.example.com ready"), "stream": goodHello(wire.Stream),
		"no first frame": goodHello(wire.Messages)[:12],
	} {
		t.Run(name, func(t *testing.T) {
			l, err := rdmacm.Listen(timeout(t), r.IP[0]+":0", &rdmacm.Options{PrivateData: reply})
			ok(t, err)
			var served sync.WaitGroup
			ctx, stop := context.WithCancel(timeout(t))
			served.Go(func() {
				for {
					c, err := l.Accept(ctx)
					if err != nil {
						return
					}
					<-c.Done()
					ok(t, c.Close())
				}
			})
			for range 5 {
				_, err := Dial(timeout(t), l.Addr().String(), from(r, client))
				var p *ProtocolError
				if !errors.As(err, &p) {
					t.Fatalf("%v, want a *ProtocolError", err)
				}
				untilNoConns(t, client)
			}
			stop()
			served.Wait()
			ok(t, l.Close())
		})
	}
}

// TestRXE_VanishingClients has clients leave in the middle of their handshake, or ask with a queue pair that cannot be.
// The next one is served.
func TestRXE_VanishingClients(t *testing.T) {
	server, client := newEngines(t, nil)
	r := testutil.NeedRXE(t)
	l, err := Listen(timeout(t), r.IP[0]+":0", &Options{Engine: server})
	ok(t, err)
	defer l.Close()
	s := newStrangers(t)
	ask := func() *rdmacm.ID { return s.ask(l.Addr(), stranger(wire.Messages)) }
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"before the reply", func() { ok(t, ask().Close()) }},
		{"after the reply", func() {
			id := ask()
			s.wait(id, rdmacm.EventConnectResponse)
			ok(t, id.Close())
		}},
		{"by a reject", func() {
			id := ask()
			s.wait(id, rdmacm.EventConnectResponse)
			ok(t, id.Reject([]byte("no")))
		}},
		{"when it is established", func() {
			id := ask()
			s.wait(id, rdmacm.EventConnectResponse)
			ok(t, id.Establish())
			ok(t, id.Close())
		}},
		{"with the queue pair of the managers", func() { // rdmacm sends no 0
			p := stranger(wire.Messages)
			p.QPN = 1
			ok(t, s.ask(l.Addr(), p).Close())
		}},
		{"with the queue pair of a group", func() {
			p := stranger(wire.Messages)
			p.QPN = 0xffffff
			ok(t, s.ask(l.Addr(), p).Close())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "by a reject" { // which an established connection has not
				needUnfinished(t)
			}
			for range 5 {
				c.do()
			}
			a, err := Dial(timeout(t), l.Addr().String(), from(r, client))
			ok(t, err)
			defer a.Close()
			ok(t, a.Send(timeout(t), []byte("honest")))
			for { // a connection that was established before its peer has left may come first
				b, err := l.Accept(timeout(t))
				ok(t, err)
				m, err := b.Recv(timeout(t))
				if err != nil {
					ok(t, b.Close())
					continue
				}
				m.Release()
				ok(t, b.Close())
				return
			}
		})
	}
}

// TestRXE_CloseListener closes a listener while peers wait for their handshake, do not finish it, or are not accepted.
func TestRXE_CloseListener(t *testing.T) {
	needUnfinished(t)
	server, client := newEngines(t, &EngineOptions{MaxConns: 12})
	r := testutil.NeedRXE(t)
	const strangers = 10
	var asked atomic.Int32
	held := make(chan struct{})
	l, err := Listen(timeout(t), r.IP[0]+":0", &Options{Engine: server, Timeout: time.Hour,
		Authorize: func(ctx context.Context, _ ConnRequest) error {
			if asked.Add(1) < 1+strangers {
				return nil
			}
			close(held)
			<-ctx.Done() // the last one has no reply when the listener is closed
			return ctx.Err()
		}})
	ok(t, err)
	c, err := Dial(timeout(t), l.Addr().String(), from(r, client))
	ok(t, err)
	s := newStrangers(t)
	ids, reasons := make(map[*rdmacm.ID]bool), make(map[wire.RejectReason]int)
	for range strangers {
		ids[s.ask(l.Addr(), stranger(wire.Messages))] = true
	}
	for ctx := timeout(t); server.Stats().Conns < 3; time.Sleep(time.Millisecond) {
		ok(t, ctx.Err())
	}
	select {
	case <-held:
	case <-timeout(t).Done():
		t.Fatal("not every stranger was asked about")
	}
	ok(t, l.Close())
	for len(ids) > 0 {
		ev := s.next()
		if ev.Type == rdmacm.EventRejected {
			if r, known := wire.ParseRejection(ev.PrivateData); known { // not of one that had a reply
				reasons[r.Reason]++
			}
			delete(ids, ev.ID)
		}
	}
	if n := reasons[wire.RejectClosed]; n == 0 || len(reasons) > 1 { // those that had a reply get none
		t.Errorf("reasons %v, want RejectClosed", reasons)
	}
	if _, err := c.Recv(timeout(t)); err == nil {
		t.Error("the connection that was not accepted goes on")
	}
	ok(t, c.Close())
	if _, err := l.Accept(timeout(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
	ok(t, l.Close())
}

// TestRXE_CancelDial ends the context of Dial at every moment. Nothing is left: see newEngines.
func TestRXE_CancelDial(t *testing.T) {
	server, client := newEngines(t, nil)
	r := testutil.NeedRXE(t)
	l, err := Listen(timeout(t), r.IP[0]+":0", &Options{Engine: server})
	ok(t, err)
	mute, err := rdmacm.Listen(timeout(t), r.IP[0]+":0", nil) // does not reply
	ok(t, err)
	accepting, stop := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept(accepting)
			if err != nil {
				return
			}
			ok(t, c.Close())
		}
	})
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 120 {
		to := l.Addr()
		if i%4 == 3 {
			to = mute.Addr()
		}
		ctx, cancel := context.WithCancel(context.Background())
		if i == 0 {
			cancel()
		}
		time.AfterFunc(time.Duration(random.IntN(4000))*time.Microsecond, cancel)
		c, err := Dial(ctx, to.String(), from(r, client))
		switch {
		case err == nil:
			ok(t, c.Close())
		case !errors.Is(err, context.Canceled):
			t.Errorf("dial %d: %v, want one that matches context.Canceled", i, err)
		}
		cancel()
	}
	untilNoConns(t, client)
	stop()
	served.Wait()
	ok(t, l.Close())
	ok(t, mute.Close())
	untilNoConns(t, server)
}
