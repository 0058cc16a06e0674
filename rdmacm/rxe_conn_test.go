package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// server listens on a device and hands out what it accepts.
func server(t testing.TB, opt *Options) *Listener {
	t.Helper()
	return closing(t, must(Listen(timeout(t), local(t).String(), opt))(t))
}

// pair is a connection, both ends.
func pair(t testing.TB, l *Listener, opt *Options) (a, b *Conn) {
	t.Helper()
	type result struct {
		c   *Conn
		err error
	}
	got := make(chan result, 1)
	go func() {
		c, err := l.Accept(timeout(t))
		got <- result{c, err}
	}()
	a = closing(t, must(Dial(timeout(t), l.Addr().String(), opt))(t))
	r := <-got
	ok(t, r.err)
	return a, closing(t, r.c)
}

// rigOf is a rig around a connection.
func rigOf(t testing.TB, c *Conn) *rig {
	t.Helper()
	return &rig{pd: c.PD(), cq: c.CQ(), qp: c.QP(),
		mr: closing(t, must(c.PD().AllocMR(4096, ibv.LocalWrite|ibv.RemoteWrite, nil))(t))}
}

func TestRXE_CM_DialListen(t *testing.T) {
	l := server(t, &Options{PrivateData: []byte("from the server")})
	a, b := pair(t, l, &Options{PrivateData: []byte("from the client")})
	if got := string(a.PrivateData()[:15]); got != "from the server" {
		t.Errorf("the client has private data %q", got)
	}
	if got := string(b.PrivateData()[:15]); got != "from the client" {
		t.Errorf("the server has private data %q", got)
	}
	if a.RemoteAddr() != l.Addr() || a.LocalAddr() != b.RemoteAddr() || b.LocalAddr().Port() != l.Addr().Port() {
		t.Errorf("addresses are %v → %v and %v → %v", a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
	}
	pingpong(t, rigOf(t, a), rigOf(t, b))
	if a.Err() != nil || b.Err() != nil {
		t.Errorf("over before its end: %v, %v", a.Err(), b.Err())
	}
	ok(t, a.Shutdown(timeout(t)))
	<-b.Done()
	for _, c := range []*Conn{a, b} {
		if !errors.Is(c.Err(), ErrDisconnected) {
			t.Errorf("it ended with %v", c.Err())
		}
	}
}

// TestRXE_CM_PeerCloses ends what is posted when the peer goes.
func TestRXE_CM_PeerCloses(t *testing.T) {
	l := server(t, nil)
	a, b := pair(t, l, nil)
	r := rigOf(t, b)
	must(b.QP().PostRecv([]ibv.RecvWR{{ID: 7, SGEs: []ibv.SGE{r.mr.SGE(0, 64)}}}))(t)
	ok(t, a.Close())
	ok(t, a.Close())
	select {
	case <-b.Done():
	case <-timeout(t).Done():
		t.Fatal("the peer's close was not seen")
	}
	if !errors.Is(b.Err(), ErrDisconnected) {
		t.Errorf("it ended with %v", b.Err())
	}
	var wc [1]ibv.WC
	must(b.CQ().Wait(timeout(t), wc[:]))(t)
	if wc[0].ID != 7 || wc[0].Status != ibv.WCWRFlushErr {
		t.Errorf("completion of %d with %v", wc[0].ID, wc[0].Status)
	}
	if !errors.Is(a.Err(), ErrClosed) {
		t.Errorf("the side that closed has %v", a.Err())
	}
}

// TestRXE_CM_Many opens, uses and closes connections at once.
func TestRXE_CM_Many(t *testing.T) {
	const peers = 16
	rounds := 6
	if r := testutil.NeedRXE(t); !r.Emulated && !r.Hardware && !testutil.Full() {
		rounds = 2
	}
	l := server(t, nil)
	ctx, stop := context.WithCancel(timeout(t))
	var serving sync.WaitGroup
	serving.Add(1)
	go func() {
		defer serving.Done()
		for {
			c, err := l.Accept(ctx)
			if err != nil && ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Errorf("accept: %v", err)
				return
			}
			serving.Add(1)
			go func() {
				defer serving.Done()
				<-c.Done()
				if err := c.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
		}
	}()
	var dialing sync.WaitGroup
	for i := range peers {
		dialing.Add(1)
		go func() {
			defer dialing.Done()
			for range rounds {
				c, err := Dial(ctx, l.Addr().String(), &Options{PrivateData: fmt.Append(nil, i),
					QP: ibv.QPOptions{MaxSendWR: 4, MaxRecvWR: 4}})
				if err != nil {
					t.Errorf("dial: %v", err)
					return
				}
				if err := c.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
		}()
	}
	dialing.Wait()
	// Whoever was accepted has been closed by its peer.
	time.Sleep(50 * time.Millisecond)
	stop()
	serving.Wait()
}

// TestRXE_CM_OwnCQ has queue pairs of which the device grants more than was asked for: the CQ that Dial and Accept make
// has room for all that can be posted.
func TestRXE_CM_OwnCQ(t *testing.T) {
	for _, o := range []ibv.QPOptions{{}, {MaxSendWR: 1, MaxRecvWR: 1}, {MaxSendWR: 100, MaxRecvWR: 100},
		{MaxSendWR: ibv.None, MaxRecvWR: 65}, {MaxSendWR: 300}} {
		l := server(t, &Options{QP: o})
		a, b := pair(t, l, &Options{QP: o})
		for _, c := range []*Conn{a, b} {
			g, entries := c.QP().Cap(), c.CQ().Cap().CQE
			if g.MaxSendWR < o.MaxSendWR || g.MaxRecvWR < o.MaxRecvWR || entries < g.MaxSendWR+g.MaxRecvWR {
				t.Errorf("%+v: the QP was granted %+v, its CQ has %d entries", o, g, entries)
			}
		}
	}
}

// TestRXE_CM_Wildcard listens on every address.
func TestRXE_CM_Wildcard(t *testing.T) {
	testutil.NeedRXE(t)
	l := closing(t, must(Listen(timeout(t), ":0", nil))(t))
	port := l.Addr().Port()
	if port == 0 || !l.Addr().Addr().IsUnspecified() {
		t.Fatalf("listening on %v", l.Addr())
	}
	addr := netip.AddrPortFrom(local(t).Addr(), port)
	var failed error
	got := make(chan *Conn, 1)
	go func() {
		var c *Conn
		c, failed = l.Accept(timeout(t))
		got <- c
	}()
	a := closing(t, must(DialAddr(timeout(t), addr, nil))(t))
	b := <-got
	ok(t, failed)
	closing(t, b)
	if b.LocalAddr().Addr().Unmap() != addr.Addr() || b.RemoteAddr().Port() != a.LocalAddr().Port() {
		t.Errorf("the listener's side is %v → %v", b.LocalAddr(), b.RemoteAddr())
	}
}

// TestRXE_CM_DialName resolves a name and a service.
func TestRXE_CM_DialName(t *testing.T) {
	l := server(t, nil)
	list, err := lookup(timeout(t), net.JoinHostPort("localhost", strconv.Itoa(int(l.Addr().Port()))))
	if err != nil || len(list) == 0 || !list[0].Addr().IsLoopback() || list[0].Port() != l.Addr().Port() {
		t.Errorf("localhost is %v, %v", list, err)
	}
}

// TestRXE_CM_CloseUnderLoad closes connections while both sides post and wait.
func TestRXE_CM_CloseUnderLoad(t *testing.T) {
	l := server(t, nil)
	for round := range 6 {
		a, b := pair(t, l, nil)
		var busy sync.WaitGroup
		for _, c := range []*Conn{a, b} {
			r := &rig{pd: c.PD(), cq: c.CQ(), qp: c.QP(), mr: must(c.PD().AllocMR(1<<16, ibv.LocalWrite, nil))(t)}
			busy.Add(2)
			go func() { // posts until the QP is closed
				defer busy.Done()
				for {
					_, err := r.qp.PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{r.mr.SGE(0, 4096)}}})
					_, serr := r.qp.PostSend([]ibv.SendWR{{ID: 2, Opcode: ibv.OpSend, Flags: ibv.Signaled,
						SGEs: []ibv.SGE{r.mr.SGE(8192, 4096)}}})
					if errors.Is(err, ErrClosed) || errors.Is(serr, ErrClosed) {
						return
					}
				}
			}()
			go func() { // takes completions until the CQ is closed
				defer busy.Done()
				var wcs [16]ibv.WC
				for {
					if _, err := r.cq.Wait(context.Background(), wcs[:]); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("wait: %v", err)
						}
						return
					}
				}
			}()
			t.Cleanup(func() {
				if err := r.mr.Close(); err != nil {
					t.Errorf("mr: %v", err)
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		first, second := a, b
		if round%2 == 1 {
			first, second = b, a
		}
		// The PDs have MRs: all else must be closed still.
		var still *ibv.BusyError
		if err := first.Close(); !errors.As(err, &still) {
			t.Errorf("close with an MR open: %v", err)
		}
		select {
		case <-second.Done():
		case <-timeout(t).Done():
			t.Fatal("the peer was not told")
		}
		if !errors.Is(second.Err(), ErrDisconnected) {
			t.Errorf("it ended with %v", second.Err())
		}
		if err := second.Close(); !errors.As(err, &still) {
			t.Errorf("close with an MR open: %v", err)
		}
		busy.Wait()
	}
}

// TestRXE_CM_IPv6 connects by IPv6: the loopback address on the emulated device, the
// link-local one, with its zone, in the VM.
func TestRXE_CM_IPv6(t *testing.T) {
	r := testutil.NeedRXE(t)
	addr := netip.IPv6Loopback()
	if !r.Emulated {
		i := must(net.InterfaceByName(r.Net[0]))(t)
		for _, a := range must(i.Addrs())(t) {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
				addr = p.Addr().WithZone(i.Name)
			}
		}
	}
	l := closing(t, must(Listen(timeout(t), netip.AddrPortFrom(addr, 0).String(), nil))(t))
	if l.Addr().Addr() != addr {
		t.Errorf("listening on %v, want %v", l.Addr(), addr)
	}
	a, b := pair(t, l, nil)
	// Kernels leave the zone out of the addresses of a request.
	bare := func(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().WithZone(""), a.Port()) }
	if a.RemoteAddr() != l.Addr() || bare(b.RemoteAddr()) != bare(a.LocalAddr()) {
		t.Errorf("addresses are %v → %v and %v → %v", a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
	}
	pingpong(t, rigOf(t, a), rigOf(t, b))
}

// TestRXE_CM_DialDatagrams dials in the port space UDP and sends to whom answers.
func TestRXE_CM_DialDatagrams(t *testing.T) {
	l := server(t, &Options{PortSpace: PortSpaceUDP, PrivateData: []byte("welcome")})
	a, b := pair(t, l, &Options{PortSpace: PortSpaceUDP})
	ah, qpn, qkey := a.Peer()
	if ah == nil || qpn != b.QP().Num() || qkey != UDPQKey || string(a.PrivateData()[:7]) != "welcome" {
		t.Fatalf("the peer is %v, %#x, %#x, with %q", ah, qpn, qkey, a.PrivateData())
	}
	if ah, _, _ := b.Peer(); ah != nil {
		t.Error("the side that listens knows an address")
	}
	x, y := rigOf(t, a), rigOf(t, b)
	sendDatagram(t, x, y, &UDParam{AH: ah.Attr(), QPN: qpn, QKey: qkey})
	ok(t, a.Shutdown(timeout(t))) // there is nobody to tell
}

// TestRXE_CM_OnClose runs what Prepare has left, when the QP is gone.
func TestRXE_CM_OnClose(t *testing.T) {
	var order []string
	var mu sync.Mutex
	l := server(t, nil)
	opt := &Options{Prepare: func(c *Conn) error {
		mr, err := c.PD().AllocMR(4096, ibv.LocalWrite, nil)
		if err != nil {
			return err
		}
		note := func(s string) { mu.Lock(); order = append(order, s); mu.Unlock() }
		c.OnClose(func() error { note("mr"); return mr.Close() })
		c.OnClose(func() error {
			note("qp " + c.QP().State().String())
			return nil
		})
		return nil
	}}
	a, _ := pair(t, l, opt)
	ok(t, a.Close())
	if want := []string{"qp " + ibv.StateUnknown.String(), "mr"}; !slices.Equal(order, want) {
		t.Errorf("ran %q, want %q", order, want)
	}
	// And when the connection is refused.
	order = nil
	if _, err := DialAddr(timeout(t), netip.AddrPortFrom(local(t).Addr(), 1), opt); !errors.Is(err, ErrRejected) {
		t.Errorf("error %v", err)
	}
	if len(order) != 2 {
		t.Errorf("ran %q", order)
	}
}
