package rdma

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

func timeout(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	t.Cleanup(cancel)
	return ctx
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// engines makes an engine on each device, which must hold all their blocks when the test ends.
func newEngines(t testing.TB, opt *EngineOptions) (server, client *Engine) {
	t.Helper()
	return newEnginesOf(t, func(int) *EngineOptions { return opt })
}

// newEnginesOf is newEngines with options for each. Below TestMemory the engines have no devices.
func newEnginesOf(t testing.TB, opt func(i int) *EngineOptions) (server, client *Engine) {
	t.Helper()
	if strings.HasPrefix(t.Name(), "TestMemory/") {
		list := memoryEngines(t, opt)
		return list[0], list[1]
	}
	r := testutil.NeedRXE(t)
	var list [2]*Engine
	for i, dev := range r.Dev {
		e, err := NewEngine(dev, opt(i))
		needBinds(t, err)
		ok(t, err)
		list[i] = e
		t.Cleanup(func() { atEnd(t, e) })
	}
	return list[0], list[1]
}

// needBinds skips if err says that a libmlx5 from before v41 cannot bind memory windows with its own data path.
func needBinds(t testing.TB, err error) {
	t.Helper()
	var u *ibv.UnsupportedError
	if errors.As(err, &u) && strings.Contains(u.Need, "does not write behind the send queue") {
		t.Skip("skipped:", err)
	}
}

// hasWindows reports whether the devices of the tests have memory windows.
func hasWindows(t testing.TB) bool {
	t.Helper()
	dev, err := ibv.Open(testutil.NeedRXE(t).Dev[0])
	ok(t, err)
	defer dev.Close()
	return dev.CanBindMW(ibv.MWType2, ibv.DataPathDirect) == nil
}

func hasAtomics(e *Engine) bool { return e.e.Attr.AtomicCap != ibv.AtomicNone }

// everything is all that the engine can lend memory for.
func everything(e *Engine) Access {
	if hasAtomics(e) {
		return allAccess
	}
	return MayRead | MayWrite
}

// needSRQ skips what connections with receive queues of their own do not have.
func needSRQ(t testing.TB, e *Engine) {
	t.Helper()
	if e.e.Shards[0].Receives.Shared == nil {
		t.Skip("the device has no SRQ")
	}
}

// atEnd closes an engine, which must have all its blocks again.
func atEnd(t testing.TB, e *Engine) {
	t.Helper()
	for end := time.Now().Add(testutil.Patience); e.Stats().Conns > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	s := e.Stats()
	if s.Conns > 0 || s.BlocksFree+s.BlocksPosted != s.Blocks || s.BlocksHeld > 0 || s.Leases > 0 || s.Windows > 0 {
		t.Errorf("engine of %s at the end: %+v; want no connections, no leases, all blocks free or posted", e.e.Name(),
			s)
	}
	ok(t, e.Close())
}

// needLogic is testutil.NeedLogic, which TestMemory and TestSIW do not need.
func needLogic(t testing.TB) {
	t.Helper()
	if !strings.HasPrefix(t.Name(), "TestMemory/") && !strings.HasPrefix(t.Name(), "TestSIW") {
		testutil.NeedLogic(t)
	}
}

// streams makes a pair of streams.
func streams(t testing.TB, server, client *Engine) (a, b *Stream) {
	t.Helper()
	if server.e.Device == nil {
		la, lb := inMemory(t, [2]*Engine{client, server}, wire.Stream, [2]*Options{{}, {}})
		return newStream(la), newStream(lb)
	}
	r := testutil.NeedRXE(t)
	l, err := ListenStream(timeout(t), net.JoinHostPort(r.IP[0], "0"), &Options{Engine: server})
	ok(t, err)
	defer l.Close()
	a, err = DialStream(timeout(t), l.Addr().String(), from(r, client))
	ok(t, err)
	b, err = l.AcceptStream(timeout(t))
	ok(t, err)
	return a, b
}

// conns makes a pair of connections.
func conns(t testing.TB, server, client *Engine) (a, b *Conn) {
	t.Helper()
	return connsAlive(t, server, client, 0)
}

// connsAlive is conns with Options.KeepAlive.
func connsAlive(t testing.TB, server, client *Engine, keepAlive time.Duration) (a, b *Conn) {
	t.Helper()
	return leaseConnsAlive(t, server, client, nil, nil, keepAlive)
}

// leaseConnsAlive makes a pair of connections with leases and a KeepAlive.
func leaseConnsAlive(t testing.TB, server, client *Engine, so, co *LeaseOptions, alive time.Duration) (a, b *Conn) {
	t.Helper()
	if server.e.Device == nil {
		la, lb := inMemory(t, [2]*Engine{client, server}, wire.Messages,
			[2]*Options{{Leases: co, KeepAlive: alive}, {Leases: so, KeepAlive: alive}})
		return &Conn{la}, &Conn{lb}
	}
	r := testutil.NeedRXE(t)
	l, err := Listen(timeout(t), net.JoinHostPort(r.IP[0], "0"), &Options{Engine: server, Leases: so, KeepAlive: alive,
		Timeout: testutil.Patience})
	ok(t, err)
	defer l.Close()
	o := from(r, client)
	o.Leases, o.KeepAlive, o.Timeout = co, alive, testutil.Patience
	a, err = Dial(timeout(t), l.Addr().String(), o)
	ok(t, err)
	b, err = l.Accept(timeout(t))
	ok(t, err)
	return a, b
}

// from are the options of a Dial from the second device.
func from(r testutil.RXE, e *Engine) *Options {
	return &Options{Engine: e, LocalAddr: netip.AddrPortFrom(netip.MustParseAddr(r.IP[1]), 0)}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
