package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// silent has an address whose kernel takes requests, and whose program replies to none.
func silent(t *testing.T, at netip.AddrPort) netip.AddrPort {
	t.Helper()
	id := newIDOn(t, newChannel(t), PortSpaceTCP)
	ok(t, id.SetAFOnly(true))
	ok(t, id.Bind(at))
	ok(t, id.Listen(0))
	return id.LocalAddr()
}

// sixth is an IPv6 address of a device.
func sixth(t *testing.T) netip.Addr {
	t.Helper()
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		i := must(net.InterfaceByName(r.Net[0]))(t)
		for _, a := range must(i.Addrs())(t) {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
				return p.Addr().WithZone(i.Name)
			}
		}
	}
	return netip.IPv6Loopback()
}

// TestRXE_CM_DialAddresses dials a name whose first address takes requests and replies to none. Others are tried while
// there is time: in the same family after its share, of the other family after 300 ms.
func TestRXE_CM_DialAddresses(t *testing.T) {
	r := testutil.NeedRXE(t)
	l := closing(t, must(Listen(timeout(t), local(t).String(), &Options{AFOnly: true}))(t))
	accepted := make(chan *Conn, 10)
	go func() {
		for {
			c, err := l.Accept(context.Background())
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	check := func(c *Conn, err error) {
		t.Helper()
		ok(t, err)
		if c.RemoteAddr() != l.Addr() {
			t.Errorf("connected to %v, want %v", c.RemoteAddr(), l.Addr())
		}
		ok(t, (<-accepted).Close())
		ok(t, c.Close())
	}
	other := netip.MustParseAddr(r.IP[1])
	hangs := silent(t, netip.AddrPortFrom(other, 0))
	// The share of the first is 2 s. The others are the same address, for a machine that is busy.
	list := []netip.AddrPort{hangs}
	for range 9 {
		list = append(list, l.Addr())
	}
	check(dialAny(within(t, 20*time.Second), "hangs.test", list, &Options{}))
	if r.Emulated && testutil.AsksDNS() {
		testutil.Names(t, map[string][]netip.Addr{"refused.test": {other, l.Addr().Addr()}})
		check(Dial(timeout(t), "refused.test:"+strconv.Itoa(int(l.Addr().Port())), &Options{Timeout: 20 * time.Second}))
	}

	// Both families: the time is not shared, so the first would take all of it.
	hangs6 := silent(t, netip.AddrPortFrom(sixth(t), 0))
	check(dialAny(timeout(t), "both.test", []netip.AddrPort{hangs6, l.Addr()}, &Options{}))

	// No time is left for the others.
	_, err := dialAny(within(t, 50*time.Millisecond), "late.test", []netip.AddrPort{hangs, l.Addr()}, &Options{})
	var op *ibv.OpError
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &op) || op.Object != "late.test" {
		t.Errorf("without time: %v", err)
	}
	// None works: the error has the reasons of all.
	nobody := netip.AddrPortFrom(l.Addr().Addr(), 1)
	_, err = dialAny(timeout(t), "none.test", []netip.AddrPort{nobody, netip.AddrPortFrom(sixth(t), 1)}, &Options{})
	if !errors.Is(err, ErrRejected) || len(reasons(err)) != 2 {
		t.Errorf("without a listener: %v", err)
	}
	select {
	case c := <-accepted:
		t.Errorf("the listener has another connection: %v", c)
	default:
	}
}

// reasons are the errors within that of several addresses.
func reasons(err error) []error {
	for ; err != nil; err = errors.Unwrap(err) {
		if list, is := err.(interface{ Unwrap() []error }); is {
			return list.Unwrap()
		}
	}
	return nil
}

// within is a context that ends soon.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestRXE_CM_DialLoser has the attempts of both families come to their last step at the same time. The listener's
// Accept returns one connection, and the handshake of the other has failed.
func TestRXE_CM_DialLoser(t *testing.T) {
	testutil.NeedRXE(t)
	six, four := sixth(t), local(t).Addr()
	var failed atomic.Int32
	opt := &Options{Failed: func(*Conn, error) { failed.Add(1) }}
	l := closing(t, must(Listen(timeout(t), ":0", opt))(t))
	addrs := []netip.AddrPort{netip.AddrPortFrom(six, l.Addr().Port()), netip.AddrPortFrom(four, l.Addr().Port())}
	for round := range 8 {
		accepted := make(chan *Conn, 2)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept(ctx)
				if err != nil {
					return
				}
				accepted <- c
			}
		}()
		failed.Store(0)
		var at atomic.Int32
		both := make(chan struct{})
		c, err := dialAny(timeout(t), fmt.Sprint("round ", round), addrs, &Options{Confirm: func(*Conn) error {
			if at.Add(1) == 2 {
				close(both)
			}
			<-both // the peer has accepted both
			return nil
		}})
		ok(t, err)
		testutil.Eventually(t, "the loser's handshake has failed", func() bool { return failed.Load() == 1 })
		got := <-accepted
		stop()
		<-done
		if len(accepted) > 0 || got.RemoteAddr().Port() != c.LocalAddr().Port() {
			t.Errorf("the listener has %v and %d more, the dialer %v", got.RemoteAddr(), len(accepted), c.LocalAddr())
		}
		ok(t, c.Close())
		ok(t, got.Close())
	}
}

// TestRXE_CM_Confirm has the dialer refuse what the peer has replied. The peer's Accept does not return the connection.
func TestRXE_CM_Confirm(t *testing.T) {
	testutil.NeedRXE(t)
	failed := make(chan error, 1)
	l := server(t, &Options{PrivateData: []byte("what you do not expect"),
		Failed: func(_ *Conn, err error) { failed <- err }})
	accepted := make(chan *Conn, 1)
	ctx, stop := context.WithCancel(timeout(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(ctx); err == nil {
			accepted <- c
		}
	}()
	refuse := errors.New("not this one")
	_, err := Dial(timeout(t), l.Addr().String(), &Options{Confirm: func(c *Conn) error {
		if string(c.PrivateData()[:8]) != "what you" {
			t.Errorf("private data %q", c.PrivateData())
		}
		return refuse
	}})
	if !errors.Is(err, refuse) {
		t.Errorf("Dial: %v", err)
	}
	if err := <-failed; !errors.Is(err, ErrRejected) {
		t.Errorf("the peer's handshake: %v", err)
	}
	stop()
	<-done
	if len(accepted) > 0 {
		t.Error("Accept has returned it")
	}
}
