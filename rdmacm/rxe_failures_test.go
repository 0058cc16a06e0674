package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// brief bounds a wait that is to end by something else.
func brief(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// refused is the RejectError in err.
func refused(t testing.TB, err error, reason RejectReason) *RejectError {
	t.Helper()
	var r *RejectError
	if !errors.As(err, &r) || r.Reason != reason {
		t.Fatalf("error %v, want a rejection for %v", err, reason)
	}
	if !errors.Is(err, ErrRejected) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v is not ErrRejected and ECONNREFUSED", err)
	}
	return r
}

func TestRXE_CM_NoRoute(t *testing.T) {
	testutil.NeedRXE(t)
	_, err := Dial(timeout(t), "192.0.2.1:7471", &Options{Timeout: time.Second})
	var e *EventError
	if !errors.As(err, &e) && !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EHOSTUNREACH) &&
		!errors.Is(err, syscall.ENODEV) {
		t.Fatalf("error %v", err)
	}
	if e != nil && e.Type != EventAddrError {
		t.Errorf("event %v, want %v", e.Type, EventAddrError)
	}
	if !strings.Contains(err.Error(), "192.0.2.1:7471") {
		t.Errorf("%v does not name the address", err)
	}
}

func TestRXE_CM_NobodyListens(t *testing.T) {
	for _, ps := range []PortSpace{PortSpaceTCP, PortSpaceUDP} {
		t.Run(ps.String(), func(t *testing.T) {
			addr := netip.AddrPortFrom(local(t).Addr(), 1)
			_, err := DialAddr(timeout(t), addr, &Options{PortSpace: ps})
			refused(t, err, RejectInvalidServiceID)
			if !strings.Contains(err.Error(), "nobody listens") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRXE_CM_Reject(t *testing.T) {
	for _, ps := range []PortSpace{PortSpaceTCP, PortSpaceUDP} {
		t.Run(ps.String(), func(t *testing.T) {
			l := server(t, &Options{PortSpace: ps})
			go func() {
				if r, err := l.Next(timeout(t)); err == nil {
					_ = r.Reject([]byte("not today"))
				}
			}()
			_, err := Dial(timeout(t), l.Addr().String(), &Options{PortSpace: ps})
			r := refused(t, err, RejectConsumer)
			if len(r.PrivateData) < 9 || string(r.PrivateData[:9]) != "not today" {
				t.Errorf("private data %q", r.PrivateData)
			}
		})
	}
}

// TestRXE_CM_BacklogFull fills the kernel's backlog, and then a Listener's.
func TestRXE_CM_BacklogFull(t *testing.T) {
	t.Run("kernel's", func(t *testing.T) {
		unread := newChannel(t)
		_, addr := listener(t, unread, PortSpaceTCP, 2)
		ch := newChannel(t)
		for range 3 {
			id := resolved(t, ch, PortSpaceTCP, addr)
			r := newRig(t, id, false)
			ok(t, id.Connect(r.param("")))
		}
		// The third is dropped, and its sender tries again.
		if ev, err := ch.Event(brief(t, 200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("event %v, error %v", ev, err)
		}
		for range 2 {
			ok(t, event(t, unread, EventConnectRequest).ID.Close())
			event(t, ch, EventRejected)
		}
		if ev, err := unread.Event(brief(t, 200*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a third request was kept: %v, error %v", ev, err)
		}
		ok(t, event(t, unread, EventConnectRequest).ID.Close())
	})
	t.Run("listener's", func(t *testing.T) {
		l := server(t, &Options{Backlog: 2})
		var wg sync.WaitGroup
		errs := make(chan error, 4)
		ctx, stop := context.WithCancel(timeout(t))
		for range 4 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				c, err := Dial(ctx, l.Addr().String(), nil)
				if c != nil {
					_ = c.Close()
				}
				errs <- err
			}()
		}
		for range 2 {
			refused(t, <-errs, RejectConsumer)
		}
		stop()
		wg.Wait()
		for range 2 {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want one of the context", err)
			}
		}
	})
}

func TestRXE_CM_Timeout(t *testing.T) {
	l := server(t, nil) // nobody is in Accept
	// On a busy machine a short timeout is over before the request is sent.
	for limit := 200 * time.Millisecond; ; limit *= 2 {
		start := time.Now()
		_, err := Dial(timeout(t), l.Addr().String(), &Options{Timeout: limit})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v", err)
		}
		if d := time.Since(start); d > limit+testutil.Patience {
			t.Errorf("it took %v", d)
		}
		if strings.Contains(err.Error(), "connect response") {
			break
		}
		if limit > testutil.Patience/4 {
			t.Fatalf("error %v", err)
		}
	}
}

// TestRXE_CM_CancelDial cancels in each state of Dial.
func TestRXE_CM_CancelDial(t *testing.T) {
	l := server(t, nil)
	for name, state := range map[string]func(cancel func()) *Options{
		"before": func(cancel func()) *Options { cancel(); return nil },
		"resolved": func(cancel func()) *Options {
			return &Options{Prepare: func(*Conn) error { cancel(); return nil }}
		},
		"prepare fails": func(cancel func()) *Options {
			return &Options{Prepare: func(*Conn) error { return context.Canceled }}
		},
		"connecting": func(cancel func()) *Options {
			return &Options{Prepare: func(*Conn) error { time.AfterFunc(50*time.Millisecond, cancel); return nil }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(timeout(t))
			defer cancel()
			c, err := Dial(ctx, l.Addr().String(), state(cancel))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("connection %v, error %v", c, err)
			}
		})
	}
	t.Run("at any time", func(t *testing.T) {
		for d := range 40 {
			ctx, cancel := context.WithTimeout(timeout(t), time.Duration(d)*100*time.Microsecond)
			c, err := Dial(ctx, l.Addr().String(), nil)
			cancel()
			if c != nil || !errors.Is(err, context.DeadlineExceeded) {
				// The kernel's own limit is the context's, and may come first.
				if !errors.Is(err, syscall.ETIMEDOUT) {
					t.Errorf("connection %v, error %v", c, err)
				}
			}
		}
	})
	t.Run("accept", func(t *testing.T) {
		// Requests that were withdrawn are passed over.
		if _, err := l.Accept(brief(t, 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// TestRXE_CM_CloseInEachState closes one side after each step of a connection, and
// looks at what the other sees.
func TestRXE_CM_CloseInEachState(t *testing.T) {
	lastUser(t)
	type world struct {
		l, id, peer *ID
		addr        netip.AddrPort
		a, b        *rig
		chA, chB    *EventChannel
	}
	steps := []struct {
		name string
		do   func(t *testing.T, w *world)
		// what the other side sees when this is the last step: nothing if 0 is wanted.
		activeCloses, passiveCloses EventType
	}{
		{"created", func(t *testing.T, w *world) { w.id = newIDOn(t, w.chA, PortSpaceTCP) }, 0, 0},
		{"resolving the address", func(t *testing.T, w *world) {
			ok(t, w.id.ResolveAddr(netip.AddrPort{}, w.addr,
				wait))
		}, 0, 0},
		{"address resolved", func(t *testing.T, w *world) { event(t, w.chA, EventAddrResolved) }, 0, 0},
		{"resolving the route", func(t *testing.T, w *world) { ok(t, w.id.ResolveRoute(wait)) }, 0, 0},
		{"route resolved", func(t *testing.T, w *world) {
			event(t, w.chA, EventRouteResolved)
			w.a = newRig(t, w.id, false)
		}, 0, 0},
		{"requested", func(t *testing.T, w *world) {
			ok(t, w.id.Connect(w.a.param("")))
			w.peer = closing(t, event(t, w.chB, EventConnectRequest).ID)
			w.b = newRig(t, w.peer, false)
		}, 0, EventRejected},
		{"accepted", func(t *testing.T, w *world) {
			ok(t, w.peer.BringUp(w.b.qp, nil))
			ok(t, w.peer.Accept(w.b.param("")))
			event(t, w.chA, EventConnectResponse)
		}, EventRejected, 0},
		{"established", func(t *testing.T, w *world) {
			ok(t, w.id.BringUp(w.a.qp, nil))
			ok(t, w.id.Establish())
			event(t, w.chB, EventEstablished)
		}, EventDisconnected, EventDisconnected},
		{"disconnected", func(t *testing.T, w *world) {
			ok(t, w.id.Disconnect())
			event(t, w.chB, EventDisconnected)
		}, 0, EventDisconnected},
	}
	for last, step := range steps {
		for _, active := range []bool{true, false} {
			if !active && last < 5 {
				continue // there is no passive side yet
			}
			name := step.name + ", the passive side closes"
			if active {
				name = step.name + ", the active side closes"
			}
			t.Run(name, func(t *testing.T) {
				w := &world{chA: newChannel(t), chB: newChannel(t)}
				w.l, w.addr = listener(t, w.chB, PortSpaceTCP, 4)
				for _, s := range steps[:last+1] {
					s.do(t, w)
				}
				closed, other, want := w.id, w.chB, step.activeCloses
				if !active {
					closed, other, want = w.peer, w.chA, step.passiveCloses
				}
				ok(t, closed.Close())
				ok(t, closed.Close())
				for op, err := range map[string]error{
					"connect": closed.Connect(nil), "bind": closed.Bind(local(t)), "accept": closed.Accept(nil),
					"listen": closed.Listen(1),
					"reject": closed.Reject(nil), "disconnect": closed.Disconnect(), "tos": closed.SetTOS(1),
				} {
					if !errors.Is(err, ErrClosed) {
						t.Errorf("%s on a closed ID: %v", op, err)
					}
				}
				if want != 0 {
					event(t, other, want)
				}
				if step.name == "requested" && active {
					// No event tells, but the answer fails.
					if err := w.peer.BringUp(w.b.qp, nil); !errors.Is(err, syscall.EINVAL) {
						t.Errorf("bringing up the QP for a request that was withdrawn: %v", err)
					}
				}
			})
		}
	}
}

// TestRXE_CM_TooEarly calls what needs a device before there is one.
func TestRXE_CM_TooEarly(t *testing.T) {
	ch := newChannel(t)
	id := newIDOn(t, ch, PortSpaceTCP)
	_, verbsErr := id.Verbs()
	_, qpErr := id.CreateQP(nil, nil, nil, nil)
	_, _, attrErr := id.QPAttr(ibv.StateInit)
	for op, err := range map[string]error{
		"verbs": verbsErr, "create qp": qpErr, "qp attributes": attrErr, "resolve route": id.ResolveRoute(wait),
		"connect": id.Connect(nil),
		"accept":  id.Accept(nil), "reject": id.Reject(nil), "establish": id.Establish(), "disconnect": id.Disconnect(),
		"notify": id.Notify(ibv.EventCommEst), "join": id.JoinMulticast(netip.MustParseAddr("239.1.2.3"),
			JoinFullMember),
		"leave": id.LeaveMulticast(netip.MustParseAddr("239.1.2.3")), "paths": id.SetPaths([]Path{{}}),
	} {
		var s *StateError
		if !errors.As(err, &s) || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if id.LocalAddr().IsValid() || id.PeerAddr().IsValid() || id.Port() != 0 || id.SrcPort() != 0 ||
		id.DstPort() != 0 || id.Paths() != nil {
		t.Errorf("a new ID has %v, %v, port %d, %v", id.LocalAddr(), id.PeerAddr(), id.Port(), id.Paths())
	}
}

func TestRXE_CM_PortInUse(t *testing.T) {
	l := server(t, nil)
	_, err := Listen(timeout(t), l.Addr().String(), nil)
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("error %v", err)
	}
	everywhere := netip.AddrPortFrom(netip.IPv6Unspecified(), l.Addr().Port()).String()
	if _, err := Listen(timeout(t), everywhere, nil); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("at all addresses: error %v", err)
	}
	// Other port spaces have other ports.
	u, err := Listen(timeout(t), l.Addr().String(), &Options{PortSpace: PortSpaceUDP})
	ok(t, err)
	ok(t, u.Close())
	ok(t, l.Close())
	again := must(Listen(timeout(t), l.Addr().String(), nil))(t)
	ok(t, again.Close())
}

func TestRXE_CM_BadAddresses(t *testing.T) {
	testutil.NeedRXE(t)
	ch := newChannel(t)
	id := newIDOn(t, ch, PortSpaceTCP)
	var arg *ibv.ArgError
	v4, v6 := netip.MustParseAddrPort("127.0.0.1:7471"), netip.MustParseAddrPort("[::1]:0")
	if err := id.ResolveAddr(v6, v4, wait); !errors.As(err, &arg) || !strings.Contains(err.Error(), "IPv6") {
		t.Errorf("a source of IPv6 for a destination of IPv4: %v", err)
	}
	if _, err := DialAddr(timeout(t), v4, &Options{LocalAddr: v6}); !errors.As(err, &arg) {
		t.Errorf("the same with Dial: %v", err)
	}
	if err := id.ResolveAddr(netip.AddrPort{}, netip.AddrPort{}, wait); !errors.As(err, &arg) {
		t.Errorf("no destination: %v", err)
	}
	if err := id.Bind(netip.AddrPort{}); !errors.As(err, &arg) {
		t.Errorf("no address to bind to: %v", err)
	}
	if err := id.Bind(netip.MustParseAddrPort("192.0.2.1:1")); !errors.Is(err, syscall.EADDRNOTAVAIL) &&
		!errors.Is(err, syscall.ENODEV) {
		t.Errorf("an address that is not ours: %v", err)
	}
	for _, addr := range []string{"", "here", "[::1", "127.0.0.1:99999", ":7471"} {
		if _, err := Dial(timeout(t), addr, nil); err == nil {
			t.Errorf("dial %q succeeded", addr)
		}
	}
}

func TestRXE_CM_PrivateData(t *testing.T) {
	for _, ps := range []PortSpace{PortSpaceTCP, PortSpaceUDP} {
		t.Run(ps.String(), func(t *testing.T) {
			ch := newChannel(t)
			_, addr := listener(t, ch, ps, 8)
			id := resolved(t, ch, ps, addr)
			a := newRig(t, id, false)
			tooLong := func(op string, limit int, call func([]byte) error) {
				var e *PrivateDataError
				if err := call(make([]byte, limit+1)); !errors.As(err, &e) || e.Limit != limit || e.Len != limit+1 ||
					e.PortSpace != ps {
					t.Errorf("%s with %d bytes: %v", op, limit+1, err)
				}
			}
			full := func(n int) []byte { return []byte(strings.Repeat("x", n)) }
			connect := func(b []byte) error { return id.Connect(&ConnParam{QPN: a.qp.Num(), PrivateData: b}) }
			tooLong("connect", ps.ConnectDataLimit(), connect)
			ok(t, connect(full(ps.ConnectDataLimit())))
			req := event(t, ch, EventConnectRequest)
			peer := closing(t, req.ID)
			if string(req.PrivateData) != string(full(ps.ConnectDataLimit())) {
				t.Errorf("the request has %q", req.PrivateData)
			}
			tooLong("reject", ps.RejectDataLimit(), peer.Reject)
			b := newRig(t, peer, false)
			accept := func(d []byte) error { return peer.Accept(&ConnParam{QPN: b.qp.Num(), PrivateData: d}) }
			tooLong("accept", ps.AcceptDataLimit(), accept)
			ok(t, peer.BringUp(b.qp, nil))
			ok(t, accept(full(ps.AcceptDataLimit())))
			want := EventConnectResponse
			if ps == PortSpaceUDP {
				want = EventEstablished
			}
			if resp := event(t, ch, want); string(resp.PrivateData) != string(full(ps.AcceptDataLimit())) {
				t.Errorf("the answer has %q", resp.PrivateData)
			}
		})
	}
}

// TestRXE_CM_CloseRacesWithEvent makes events and closes their IDs at once, with
// several readers. In a full run it makes so many that librdmacm crashed in each in
// the VM when IDs were created while it read events.
func TestRXE_CM_CloseRacesWithEvent(t *testing.T) {
	each := 100
	if testutil.Full() {
		each = 2500
	}
	ch := newChannel(t)
	_, addr := listener(t, ch, PortSpaceTCP, 64)
	ctx, stop := context.WithCancel(timeout(t))
	var readers, makers sync.WaitGroup
	for range 3 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for {
				ev, err := ch.Event(ctx)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("event: %v", err)
					}
					return
				}
				switch ev.Type {
				case EventAddrResolved:
					_ = ev.ID.ResolveRoute(wait) // it may be closed
				case EventRouteResolved:
					_ = ev.ID.Connect(&ConnParam{QPN: 1})
				case EventConnectRequest:
					ok(t, ev.ID.Close())
				}
			}
		}()
	}
	for i := range 8 {
		makers.Add(1)
		go func() {
			defer makers.Done()
			for n := range each {
				id, err := ch.CreateID(PortSpaceTCP)
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				if err := id.ResolveAddr(netip.AddrPort{}, addr, wait); err != nil {
					t.Errorf("resolve: %v", err)
				}
				time.Sleep(time.Duration((i*n)%7) * 200 * time.Microsecond)
				if err := id.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
		}()
	}
	makers.Wait()
	stop()
	readers.Wait()
	// Requests that nobody has read go with the listener.
}

func TestRXE_CM_Channel(t *testing.T) {
	testutil.NeedRXE(t)
	ch := must(NewEventChannel())(t)
	if _, err := ch.Event(brief(t, 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no event: %v", err)
	}
	id := must(ch.CreateID(PortSpaceTCP))(t)
	var busy *ibv.BusyError
	if err := ch.Close(); !errors.As(err, &busy) || !strings.Contains(err.Error(), "1 id") {
		t.Errorf("close with an ID: %v", err)
	}
	ok(t, id.Close())
	waiting := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := ch.Event(context.Background())
			waiting <- err
		}()
	}
	time.Sleep(20 * time.Millisecond)
	ok(t, ch.Close())
	ok(t, ch.Close())
	for range 2 {
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("a reader got %v", err)
		}
	}
	if _, err := ch.Event(timeout(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("event after close: %v", err)
	}
	if _, err := ch.CreateID(PortSpaceTCP); !errors.Is(err, ErrClosed) {
		t.Errorf("create after close: %v", err)
	}
}

// TestRXE_CM_ListenerCloses refuses who waits, and lets connections go on.
func TestRXE_CM_ListenerCloses(t *testing.T) {
	l := server(t, nil)
	a, b := pair(t, l, nil)
	errs := make(chan error, 1)
	go func() {
		c, err := Dial(timeout(t), l.Addr().String(), nil)
		if c != nil {
			_ = c.Close()
		}
		errs <- err
	}()
	accepting := make(chan error, 1)
	testutil.Eventually(t, "the request waits", func() bool { return len(l.requests) == 1 })
	ok(t, l.Close())
	refused(t, <-errs, RejectConsumer)
	go func() {
		_, err := l.Accept(timeout(t))
		accepting <- err
	}()
	if err := <-accepting; !errors.Is(err, ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	pingpong(t, rigOf(t, a), rigOf(t, b))
}

// TestRXE_CM_ChannelCloseRaces closes channels while a reader has just been woken.
func TestRXE_CM_ChannelCloseRaces(t *testing.T) {
	testutil.NeedRXE(t)
	for range 60 {
		ch := must(NewEventChannel())(t)
		got := make(chan error, 1)
		go func() {
			for {
				if _, err := ch.Event(context.Background()); err != nil {
					got <- err
					return
				}
			}
		}()
		id := must(ch.CreateID(PortSpaceTCP))(t)
		ok(t, id.ResolveAddr(netip.AddrPort{}, netip.AddrPortFrom(local(t).Addr(), 1), wait))
		ok(t, id.Close())
		ok(t, ch.Close())
		if err := <-got; !errors.Is(err, ErrClosed) {
			t.Fatalf("the reader got %v", err)
		}
	}
}

// TestRXE_CM_EndsAfterReply ends a handshake between the acceptor's reply and the dialer's confirmation. Linux sends no
// private data then; the dialer's error tells that the peer had accepted.
func TestRXE_CM_EndsAfterReply(t *testing.T) {
	ch := newChannel(t)
	_, addr := listener(t, ch, PortSpaceTCP, 4)
	conn, result := make(chan *Conn, 1), make(chan error, 1)
	go func() {
		c, err := Dial(timeout(t), addr.String(), &Options{Prepare: func(c *Conn) error { conn <- c; return nil }})
		if err == nil {
			err = errors.Join(errors.New("connected"), c.Close())
		}
		result <- err
	}()
	id := event(t, ch, EventConnectRequest).ID
	for range cap(inC) { // Dial then confirms nothing
		inC <- struct{}{}
	}
	r := newRig(t, id, false)
	ok(t, id.BringUp(r.qp, r.param("")))
	ok(t, id.Accept(r.param("")))
	ok(t, errors.Join(r.qp.Close(), r.cq.Close(), r.mr.Close(), r.pd.Close(), id.Close()))
	for c, patience := <-conn, timeout(t); c.id.order.load() != stageOver; time.Sleep(time.Millisecond) {
		ok(t, patience.Err())
	}
	for range cap(inC) {
		<-inC
	}
	err := <-result
	const text = "after the peer had accepted"
	if e := refused(t, err, RejectConsumer); !e.Accepted || !strings.Contains(err.Error(), text) {
		t.Errorf("Accepted is %t: %v", e.Accepted, err)
	}
}
