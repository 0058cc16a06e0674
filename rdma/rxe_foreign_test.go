package rdma

import (
	"errors"
	"net"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// TestRXE_Foreign is TestForeign for functions that need a device.
func TestRXE_Foreign(t *testing.T) {
	testutil.NeedLogic(t)
	foreignTable(t, foreignDevice)
}

// foreignAuthorize: the peer hears why it is refused, and later ones are permitted.
func foreignAuthorize(t *testing.T, m *misdeed) {
	r := testutil.NeedRXE(t)
	server, client := newEngines(t, nil)
	l, err := Listen(timeout(t), net.JoinHostPort(r.IP[0], "0"), m.authorizedBy(Options{Engine: server}))
	ok(t, err)
	m.set(func() { _, _ = l.Addr(), l.Refused() }, func() { _ = l.Close() })
	dial := func() error {
		c, err := Dial(timeout(t), l.Addr().String(), from(r, client))
		if err != nil {
			return err
		}
		s, err := l.Accept(timeout(t))
		ok(t, err)
		ok(t, s.CloseNow())
		return c.CloseNow()
	}
	err = dial()
	reasons := map[way]RejectReason{byGoexit: RejectedByAuthorize, byBlocking: RejectedLate, byClosing: RejectedClosed}
	want := reasons[m.way]
	var reject *RejectError
	if got := errors.As(err, &reject); got != (want != 0) || got && reject.Reason != want {
		t.Errorf("the peer hears %v, want %v", err, want)
	}
	m.returned(t)
	if m.way != byClosing {
		ok(t, dial())
		want := uint64(1)
		if m.way == byCallingBack {
			want = 0
		}
		if n := l.Refused(); n != want || server.Stats().Refused != want {
			t.Errorf("%d peers are refused, %d in Stats, want %d", n, server.Stats().Refused, want)
		}
	}
	ends(t, "Close", func() { ok(t, l.Close()) })
}

// needOwnEvents skips where objects of the program raise no events.
func needOwnEvents(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("injects a fault: runs on the emulated device only (make test-emu)")
	}
	dev, err := ibv.Open(r.Dev[0])
	ok(t, err)
	defer dev.Close()
	if attr, err := dev.QueryDevice(); err == nil && !link.HasSRQ(attr) {
		t.Skip("the device has no SRQ")
	}
}

// foreignOnEvent: the engine handles its own events meanwhile, later events are passed on, and Close returns.
func foreignOnEvent(t *testing.T, m *misdeed) {
	r := testutil.NeedRXE(t)
	dev, err := ibv.Open(r.Dev[0])
	ok(t, err)
	defer func() { ok(t, dev.Close()) }()
	pd, err := dev.AllocPD()
	ok(t, err)
	defer func() { ok(t, pd.Close()) }()
	events := make(chan ibv.AsyncEvent, 100)
	e, err := NewEngine(r.Dev[0], &EngineOptions{PD: pd, OnEvent: func(ev ibv.AsyncEvent) {
		m.do()
		events <- ev
	}})
	ok(t, err)
	m.set(func() { _ = e.Stats() }, func() { _ = e.Close() })
	cq, err := dev.CreateCQ(16, nil)
	ok(t, err)
	srq, err := pd.CreateSRQ(&ibv.SRQOptions{MaxWR: 16})
	ok(t, err)
	own := func(calls int32) { // an event of an object of the program's
		qp, err := pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.RC, SRQ: srq})
		ok(t, err)
		ok(t, qp.Modify(&ibv.QPAttr{State: ibv.StateInit, Port: 1},
			ibv.MaskState|ibv.MaskPort|ibv.MaskPKeyIndex|ibv.MaskAccessFlags))
		ok(t, qp.Modify(&ibv.QPAttr{State: ibv.StateErr}, ibv.MaskState))
		testutil.Eventually(t, "the function is called", func() bool { return m.called.Load() >= calls })
		ok(t, qp.Close()) // whose events are dropped
	}
	own(1)
	m.returned(t)
	if m.way != byClosing {
		if m.way != byBlocking {
			own(2)
			<-events
		}
		_, client := newEngines(t, nil)
		a, b := conns(t, e, client)
		r.Fault(t, "qp-fatal:count=1,device="+r.Dev[0])
		for err = nil; err == nil; {
			err = b.Send(timeout(t), []byte("hello"))
		}
		<-b.Done()
		ok(t, a.CloseNow())
		ok(t, b.CloseNow())
	}
	ends(t, "Close", func() { ok(t, e.Close()) })
	for _, c := range []interface{ Close() error }{srq, cq} {
		ok(t, c.Close())
	}
}

// addrFunc is an address whose text a function makes.
type addrFunc func() string

func (addrFunc) Network() string  { return "udp" }
func (f addrFunc) String() string { return f() }

// foreignAddr: WriteTo with an address of the program's. The socket works on.
func foreignAddr(t *testing.T, m *misdeed) {
	a, b := packets(t, twoEngines(t)...)
	m.set(func() { _, _ = a.Stats(), a.LocalAddr() }, func() { _ = a.Close() })
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		m.own(t, func() {
			_, _ = a.WriteTo([]byte("hello"), addrFunc(func() string { m.do(); return b.LocalAddr().String() }))
		})
	}()
	testutil.Eventually(t, "the function is called", func() bool { return m.called.Load() > 0 })
	if m.way != byBlocking {
		ends(t, "WriteTo", func() { <-sent })
	}
	m.returned(t)
	if m.way != byClosing {
		_, err := a.WriteTo([]byte("other"), b.LocalAddr())
		ok(t, err)
		if m.way == byCallingBack {
			expect(t, b, []byte("hello"))
		}
		expect(t, b, []byte("other"))
	}
	ends(t, "Close", func() { ok(t, a.Close()) })
}
