package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_CM_RNRRetry has RNRRetryCount set the peer's QP, as rdma_connect(3) says, and OwnRNRRetryCount one's own.
func TestRXE_CM_RNRRetry(t *testing.T) {
	count := func(c *Conn) uint8 { return must(c.QP().Query(ibv.MaskRNRRetry))(t).RNRRetry }
	for _, c := range []struct {
		name           string
		dialer, accept Options
		wantD, wantA   uint8
	}{
		{"default", Options{}, Options{}, 7, 7},
		{"of the request", Options{RNRRetryCount: 3}, Options{}, 7, 3},
		{"of the reply", Options{}, Options{RNRRetryCount: 5}, 5, 7},
		{"none", Options{RNRRetryCount: ibv.None}, Options{}, 7, 0},
		{"own", Options{OwnRNRRetryCount: 2}, Options{OwnRNRRetryCount: ibv.None}, 2, 0},
		{"own over the peer's", Options{RNRRetryCount: 3, OwnRNRRetryCount: 4}, Options{RNRRetryCount: 5}, 4, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := pair(t, server(t, &c.accept), &c.dialer)
			if d, p := count(a), count(b); d != c.wantD || p != c.wantA {
				t.Errorf("dialer and acceptor repeat %d and %d times, want %d and %d", d, p, c.wantD, c.wantA)
			}
			if got, want := b.Param().RNRRetryCount, verbs.OrDefault(c.dialer.RNRRetryCount, 7); got != want {
				t.Errorf("the request says %d, want %d", got, want)
			}
		})
	}
	var arg *ibv.ArgError
	if _, err := Dial(timeout(t), "10.0.0.1:1", &Options{OwnRNRRetryCount: 8}); !errors.As(err, &arg) ||
		arg.Arg != "OwnRNRRetryCount" {
		t.Error(err)
	}
}

// TestRXE_CM_InitiatorDepth accepts with more outstanding reads than the request allows. rdma_accept(3): at most the
// value of the request.
func TestRXE_CM_InitiatorDepth(t *testing.T) {
	depth := func(c *Conn) int { return int(must(c.QP().Query(ibv.MaskMaxQPRdAtomic))(t).MaxRdAtomic) }
	for _, n := range []int{0, 1, ibv.None} {
		_, b := pair(t, server(t, &Options{InitiatorDepth: n}), &Options{ResponderResources: 1})
		if depth(b) > 1 {
			t.Errorf("with depth %d the acceptor has %d reads outstanding, and the dialer executes 1", n, depth(b))
		}
	}
	// A reply lowers what the dialer asked for.
	a, _ := pair(t, server(t, &Options{ResponderResources: 2}), &Options{InitiatorDepth: 8})
	if depth(a) > 2 {
		t.Errorf("the dialer has %d reads outstanding, and the acceptor executes 2", depth(a))
	}
	var limit *ibv.LimitError
	check := func(op string, err error) {
		t.Helper()
		if !errors.As(err, &limit) || limit.What != "InitiatorDepth" || limit.Asked != 2 || limit.Limit != 1 ||
			!strings.Contains(err.Error(), "the peer's request") {
			t.Errorf("%s: %v", op, err)
		}
	}
	l := server(t, nil)
	ended := make(chan error, 1)
	go func() {
		_, err := Dial(timeout(t), l.Addr().String(), &Options{ResponderResources: 1})
		ended <- err
	}()
	r := must(l.Next(timeout(t)))(t)
	g := newRig(t, r.ID(), false)
	p := g.param("")
	p.InitiatorDepth = 2
	check("bring up", r.ID().BringUp(g.qp, p))
	check("accept", r.ID().Accept(p))
	_, err := r.Accept(timeout(t), &Options{InitiatorDepth: 2})
	check("accept of a request", err)
	if err := <-ended; !errors.Is(err, ErrRejected) {
		t.Errorf("dial: %v", err)
	}
	// A Listener passes over such a peer.
	failed := make(chan error, 1)
	l = server(t, &Options{InitiatorDepth: 2, Failed: func(_ *Conn, err error) { failed <- err }})
	ctx, cancel := context.WithCancel(timeout(t))
	accepted := make(chan error, 1)
	go func() { _, err := l.Accept(ctx); accepted <- err }()
	if _, err := Dial(timeout(t), l.Addr().String(), &Options{ResponderResources: 1}); !errors.Is(err, ErrRejected) {
		t.Errorf("dial: %v", err)
	}
	check("failed", <-failed)
	cancel()
	if err := <-accepted; !errors.Is(err, context.Canceled) {
		t.Errorf("accept: %v", err)
	}
}

// TestRXE_CM_NeedsQP connects and accepts without a QP, as librdmacm refuses it (ucma_valid_param).
func TestRXE_CM_NeedsQP(t *testing.T) {
	s, c := newChannel(t), newChannel(t)
	_, addr := listener(t, s, PortSpaceTCP, 1)
	id := resolved(t, c, PortSpaceTCP, addr)
	refused := func(op string, err error, what string) {
		t.Helper()
		var arg *ibv.ArgError
		if !errors.As(err, &arg) || arg.Arg != what || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", op, err)
		}
	}
	refused("connect", id.Connect(nil), "parameter")
	refused("connect", id.Connect(&ConnParam{}), "QPN")
	ok(t, id.Connect(&ConnParam{QPN: 0x40}))
	ev := event(t, s, EventConnectRequest)
	closing(t, ev.ID)
	if ev.Conn.QPN != 0x40 {
		t.Errorf("the request names QP %#x", ev.Conn.QPN)
	}
	refused("accept", ev.ID.Accept(nil), "parameter")
	refused("accept", ev.ID.Accept(&ConnParam{}), "QPN")
	ok(t, ev.ID.Accept(&ConnParam{QPN: 0x41}))
	if ev := event(t, c, EventConnectResponse); ev.Conn.QPN != 0x41 {
		t.Errorf("the reply names QP %#x", ev.Conn.QPN)
	}
}

// TestRXE_CM_Order makes calls in an order that rdma_cm refuses.
func TestRXE_CM_Order(t *testing.T) {
	ch := newChannel(t)
	_, dst := listener(t, ch, PortSpaceTCP, 1)
	at := func(id *ID) error { return id.ResolveAddr(netip.AddrPort{}, dst, wait) }
	refused := func(op string, late bool, err error, words string) {
		t.Helper()
		var s *StateError
		if !errors.As(err, &s) || s.Late != late || !errors.Is(err, syscall.EINVAL) ||
			!strings.Contains(err.Error(), words) || late == strings.Contains(err.Error(), "too early") {
			t.Errorf("%s: %v", op, err)
		}
	}
	id := newIDOn(t, ch, PortSpaceTCP)
	ok(t, at(id))
	event(t, ch, EventAddrResolved)
	refused("resolve twice", true, at(id), "has resolved an address")
	refused("connect without a route", false, id.Connect(&ConnParam{QPN: 5}), "ResolveRoute")
	refused("bind", true, id.Bind(local(t)), "bind an ID once")
	refused("listen", true, id.Listen(1), "another ID")
	refused("accept", false, id.Accept(&ConnParam{QPN: 5}), "EventConnectRequest")
	ok(t, id.ResolveRoute(wait))
	event(t, ch, EventRouteResolved)
	refused("route twice", true, id.ResolveRoute(wait), "has a route")

	bound := newIDOn(t, ch, PortSpaceTCP)
	ok(t, bound.Bind(local(t)))
	refused("bind twice", true, bound.Bind(local(t)), "is bound")
	refused("route of a bound ID", false, bound.ResolveRoute(wait), "ResolveAddr")
	ok(t, bound.Listen(1))
	refused("listen twice", true, bound.Listen(1), "listens")
	refused("resolve of a listener", true, at(bound), "listens")

	// The kernel ignores a source of an ID that is bound.
	own := newIDOn(t, ch, PortSpaceTCP)
	ok(t, own.Bind(local(t)))
	have := own.LocalAddr()
	var arg *ibv.ArgError
	for _, src := range []netip.AddrPort{netip.AddrPortFrom(have.Addr(), have.Port()^1),
		netip.AddrPortFrom(netip.Addr{}, have.Port()^1), netip.AddrPortFrom(netip.MustParseAddr("10.77.0.1"), 0)} {
		if err := own.ResolveAddr(src, dst, wait); !errors.As(err, &arg) || arg.Arg != "source address" {
			t.Errorf("source %v of an ID at %v: %v", src, have, err)
		}
	}
	ok(t, own.ResolveAddr(have, dst, wait))
	event(t, ch, EventAddrResolved)
}

// TestRXE_CM_InUse binds to a port that an ID on a wildcard has. Linux, cma_check_port: EADDRNOTAVAIL.
func TestRXE_CM_InUse(t *testing.T) {
	addr := local(t).Addr()
	for _, first := range []netip.Addr{netip.IPv6Unspecified(), netip.IPv4Unspecified(),
		netip.MustParseAddr("127.0.0.1"), addr} {
		ch := newChannel(t)
		has := newIDOn(t, ch, PortSpaceTCP)
		ok(t, has.Bind(netip.AddrPortFrom(first, 0)))
		for _, second := range []netip.Addr{addr, netip.IPv4Unspecified(), netip.MustParseAddr("127.0.0.1")} {
			err := newIDOn(t, ch, PortSpaceTCP).Bind(netip.AddrPortFrom(second, has.SrcPort()))
			if !errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "no RDMA device") {
				t.Errorf("%v, while %v has the port: %v", second, first, err)
			}
		}
		src := netip.AddrPortFrom(addr, has.SrcPort())
		err := newIDOn(t, ch, PortSpaceTCP).ResolveAddr(src, netip.AddrPortFrom(addr, 9), wait)
		if !errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "no RDMA device") {
			t.Errorf("source %v, while %v has the port: %v", src, first, err)
		}
		if err := newIDOn(t, ch, PortSpaceUDP).Bind(netip.AddrPortFrom(addr, has.SrcPort())); err != nil {
			t.Errorf("the same port of another port space: %v", err)
		}
	}
	err := newIDOn(t, newChannel(t), PortSpaceTCP).Bind(netip.MustParseAddrPort("10.99.9.9:7000"))
	if err == nil || errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "no RDMA device") {
		t.Errorf("an address that no device has: %v", err)
	}
}

// TestRXE_CM_CloseInGroup closes a QP of CreateQP and its ID while they are in groups. ibv_destroy_qp(3) refuses a QP
// that is attached.
func TestRXE_CM_CloseInGroup(t *testing.T) {
	lastUser(t)
	for _, c := range []struct {
		name         string
		idFirst, own bool
	}{{"QP first", false, false}, {"ID first", true, false}, {"attached by the program", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			testutil.NeedControl(t)
			ch := newChannel(t)
			id := must(ch.CreateID(PortSpaceUDP))(t)
			ok(t, id.Bind(local(t)))
			dev := must(id.Verbs())(t)
			pd := closing(t, must(dev.AllocPD())(t))
			cq := closing(t, must(dev.CreateCQ(16, nil))(t))
			qp := must(id.CreateQP(pd, cq, cq, nil))(t)
			var ev *Event
			for _, g := range []string{"239.1.2.5", "239.1.2.6"} {
				ok(t, id.JoinMulticast(netip.MustParseAddr(g), JoinFullMember))
				ev = event(t, ch, EventMulticastJoin)
			}
			ok(t, id.LeaveMulticast(netip.MustParseAddr("239.1.2.5")))
			if c.idFirst {
				var busy *ibv.BusyError
				if err := id.Close(); !errors.As(err, &busy) || !strings.Contains(err.Error(), "1 qp") {
					t.Errorf("close the ID: %v", err)
				}
			}
			if c.own {
				own, foreign := ev.UD.AH.DGID, abi.GID(ev.UD.AH.DGID)
				own[15] ^= 0x40
				foreign[15] ^= 0x20
				ok(t, qp.AttachMcast(own, 0))
				h, leave, err := verbs.Enter(qp, "test")
				ok(t, err)
				leave()
				ok(t, verbs.AttachMcast(pd, h, &foreign, 0))
				var busy *ibv.BusyError
				if err := qp.Close(); !errors.As(err, &busy) || !strings.Contains(err.Error(), "group") {
					t.Errorf("close a QP that C attached: %v", err)
				}
				ok(t, verbs.DetachMcast(pd, h, &foreign, 0))
				for _, g := range []ibv.GID{own, ev.UD.AH.DGID} { // it is still in these
					ok(t, qp.DetachMcast(g, 0))
					ok(t, qp.AttachMcast(g, 0))
				}
			}
			ok(t, qp.Close())
			ok(t, id.Close())
		})
	}
}

// lastUser makes an ID that closes last. librdmacm frees its own PD of a device only if an ID is the last user of the
// device (rdma-core, librdmacm/cma.c, rdma_free_devices): a list is if the objects on it outlive the IDs. The list is
// freed in another goroutine after the last object is closed.
func lastUser(t *testing.T) {
	t.Helper()
	ok(t, newIDOn(t, newChannel(t), PortSpaceUDP).Bind(local(t)))
	t.Cleanup(func() {
		testutil.Eventually(t, "no device is open", func() bool { return openDevices() == 0 })
	})
}

func openDevices() int {
	devices.Lock()
	defer devices.Unlock()
	return len(devices.m)
}

// TestRXE_CM_DeviceEnds: a device that has no users closes with the last object on it.
func TestRXE_CM_DeviceEnds(t *testing.T) {
	lastUser(t)
	ch := newChannel(t)
	for range 2 {
		id := must(ch.CreateID(PortSpaceTCP))(t)
		ok(t, id.Bind(local(t)))
		dev := must(id.Verbs())(t)
		pd, cq := must(dev.AllocPD())(t), must(dev.CreateCQ(4, nil))(t)
		ok(t, id.Close())
		ok(t, pd.Close())
		if openDevices() == 0 {
			t.Error("closed while it has a CQ")
		}
		ok(t, cq.Close())
		testutil.Eventually(t, "no device is open", func() bool { return openDevices() == 0 })
	}
}

// TestRXE_CM_Loopback listens on loopback addresses, which rdma_cm takes for wildcards (Linux, cma_any_addr).
func TestRXE_CM_Loopback(t *testing.T) {
	r := testutil.NeedRXE(t)
	for _, host := range []string{"127.0.0.1", "[::1]", "localhost"} {
		l := closing(t, must(Listen(timeout(t), host+":0", nil))(t))
		accepted := make(chan *Conn, 1)
		ctx, cancel := context.WithCancel(timeout(t))
		go func() {
			defer close(accepted)
			for {
				c, err := l.Accept(ctx)
				if err != nil {
					return
				}
				accepted <- c
			}
		}()
		for _, ip := range r.IP {
			to := netip.AddrPortFrom(netip.MustParseAddr(ip), l.Addr().Port())
			c, err := DialAddr(timeout(t), to, nil)
			if err == nil {
				ok(t, c.Close())
			}
			if !errors.Is(err, ErrRejected) {
				t.Errorf("listening on %s, dialing %v: %v", host, to, err)
			}
		}
		if r.Emulated { // Linux 6.1 drops requests to loopback addresses
			c := must(DialAddr(timeout(t), l.Addr(), nil))(t)
			ok(t, (<-accepted).Close())
			ok(t, c.Close())
		}
		cancel()
		for c := range accepted {
			t.Errorf("a connection from %v was accepted", c.RemoteAddr())
			ok(t, c.Close())
		}
	}
}
