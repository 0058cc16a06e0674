package rdma

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// keyEngines is newEngines where leases of each side's memory are by other keys, if the device has them.
func keyEngines(t testing.TB, opt EngineOptions, server, client LeaseKeys) (s, c *Engine) {
	t.Helper()
	link.TrustWindows = true
	t.Cleanup(func() { link.TrustWindows = false })
	if testutil.NeedRXE(t).IWARP { // which has no windows
		server, client = KeysMR, KeysMR
	}
	return newEnginesOf(t, func(i int) *EngineOptions {
		o := opt
		o.LeaseKeys = []LeaseKeys{server, client}[i]
		if o.LeaseKeys == KeysWindow && !hasWindows(t) {
			o.LeaseKeys = KeysAuto
		}
		return &o
	})
}

// eachKeys runs a test with leases by MRs, and by windows if the device has them.
func eachKeys(t *testing.T, run func(*testing.T, LeaseKeys)) {
	t.Helper()
	for _, k := range []LeaseKeys{KeysMR, KeysWindow} {
		if k == KeysWindow && !hasWindows(t) {
			continue
		}
		t.Run(k.String(), func(t *testing.T) { run(t, k) })
	}
}

// TestRXE_LeaseKeys has what is chosen, and what is refused.
func TestRXE_LeaseKeys(t *testing.T) {
	r := testutil.NeedRXE(t)
	var unsupported *ibv.UnsupportedError
	has := hasWindows(t)
	windows := has && (r.Emulated || r.Hardware)
	lacks := "bounds"
	if !has {
		lacks = "a memory window"
	}
	if e, err := NewEngine(r.Dev[0], &EngineOptions{LeaseKeys: KeysWindow}); windows {
		needBinds(t, err)
		ok(t, err)
		ok(t, e.Close())
	} else if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), lacks) {
		t.Errorf("windows that the device lacks: %v, want an *ibv.UnsupportedError with %q", err, lacks)
	}
	_, other := newEngines(t, nil)
	if got := other.e.Windows != nil; got != windows {
		t.Errorf("KeysAuto uses windows: %v, want %v", got, windows)
	}
	server, client := keyEngines(t, EngineOptions{}, KeysMR, KeysWindow)
	a, b := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
	defer a.Close()
	defer b.Close()
	whole := make([]byte, 4096)
	odd, err := client.Pool().Register(whole[4:])
	ok(t, err)
	defer odd.Release()
	even, err := client.Pool().Register(make([]byte, 64))
	ok(t, err)
	defer even.Release()
	every := everything(client)
	for _, c := range []struct {
		name          string
		owner, holder *Conn
		mem           *Buffer
		access        Access
		window        bool
	}{
		{"KeysMR", b, a, buffer(t, server, 4096), every, false},
		{"KeysWindow", a, b, buffer(t, client, 4096), every, has},
		{"registered memory", a, b, even, every, has},
		{"memory for reading that is not aligned", a, b, odd, MayRead, has},
		{"memory for atomics that is not aligned", a, b, odd, every, has && every&MayAtomic == 0},
	} {
		local := buffer(t, c.holder.Engine(), len(c.mem.Bytes()))
		want := scramble(c.mem, 3)
		s, region := lend(t, c.owner, c.holder, c.mem, c.access, 0)
		if s.Window() != c.window {
			t.Errorf("%s: by a window: %v", c.name, s.Window())
		}
		if n := c.owner.Engine().Stats(); n.Leases != 1 || n.Windows == 1 != c.window {
			t.Errorf("%s: %+v", c.name, n)
		}
		ok(t, region.Read(timeout(t), local, 0))
		if !bytes.Equal(local.Bytes(), want) {
			t.Errorf("%s: what was read differs", c.name)
		}
		ok(t, region.Return(timeout(t)))
		_, err := s.Wait(timeout(t))
		ok(t, err)
	}
	if !has {
		return
	}
	// A window is bound anew, with the next of 256 keys.
	mem := buffer(t, client, 64)
	last := uint32(0)
	for i := range 258 {
		s, err := a.Lend(timeout(t), mem, MayRead, 0)
		ok(t, err)
		if key := s.key.remote.RKey; i > 0 && key != ibv.NextRKey(last) {
			t.Fatalf("lease %d: key %#x after %#x", i, key, last)
		}
		last = s.key.remote.RKey
		region, err := b.Borrow(timeout(t))
		ok(t, err)
		ok(t, region.Return(timeout(t)))
		_, err = s.Wait(timeout(t))
		ok(t, err)
	}
	if n := len(client.e.Windows.Free); n != 1 {
		t.Errorf("%d windows, want 1", n)
	}
	echo(t, a, b)
}

// needEvents skips where the owner does not hear of a refused access.
func needEvents(t *testing.T) {
	t.Helper()
	if r := testutil.NeedRXE(t); !r.Emulated {
		t.Skip("SoftRoCE raises no event for a remote access that it refuses: runs on the emulated device only")
	}
}

// TestRXE_LeaseKeyOfAnother has a peer that knows the address and the key of a lease of another connection.
func TestRXE_LeaseKeyOfAnother(t *testing.T) {
	needEvents(t)
	if !hasWindows(t) {
		t.Skip("the device has no memory windows")
	}
	server, _ := keyEngines(t, EngineOptions{Memory: 16 << 20}, KeysWindow, KeysMR)
	l, err := Listen(timeout(t), testutil.NeedRXE(t).IP[0]+":0", &Options{Engine: server, Leases: &LeaseOptions{}})
	ok(t, err)
	defer l.Close()
	var attackers [2]*attacker
	var victims [2]*Conn
	var leases [2]*Lease
	for i := range attackers {
		attackers[i], err = attack(t, l.Addr().String(), leaseHello())
		ok(t, err)
		victims[i], err = l.Accept(timeout(t))
		ok(t, err)
		defer victims[i].Close()
		leases[i], err = victims[i].Lend(timeout(t), buffer(t, server, 4096), MayRead|MayWrite, 0)
		ok(t, err)
		ok(t, victims[i].Flush(timeout(t))) // the window is bound
	}
	own, other := leases[0].key.remote, leases[1].key.remote
	ok(t, attackers[0].access(ibv.OpWrite, own.Addr, own.RKey))
	ok(t, attackers[1].access(ibv.OpWrite, other.Addr, other.RKey))
	was := bytes.Clone(leases[1].buf.Bytes())
	attackers[0].mr.Bytes()[1024]++
	var wc *ibv.WCError
	if err := attackers[0].access(ibv.OpWrite, other.Addr, other.RKey); !errors.As(err, &wc) ||
		wc.Status != ibv.WCRemAccessErr {
		t.Errorf("a write by the key of another connection: %v", err)
	}
	<-victims[0].Done()
	if err := victims[0].Err(); !isProtocol(err) {
		t.Errorf("the end of the one connection: %v", err)
	}
	if !bytes.Equal(leases[1].buf.Bytes(), was) {
		t.Error("the memory has changed")
	}
	ok(t, attackers[1].access(ibv.OpRead, other.Addr, other.RKey))
	ok(t, victims[1].Err())
}

// TestRXE_LeaseInvalidated has a peer that takes a key from the owner's queue pair by a SEND. No lease lets it.
func TestRXE_LeaseInvalidated(t *testing.T) {
	needEvents(t)
	eachKeys(t, func(t *testing.T, keys LeaseKeys) {
		server, _ := keyEngines(t, EngineOptions{Memory: 16 << 20}, keys, keys)
		l, err := Listen(timeout(t), testutil.NeedRXE(t).IP[0]+":0", &Options{Engine: server, KeepAlive: time.Second,
			Leases: &LeaseOptions{}})
		ok(t, err)
		defer l.Close()
		a, err := attack(t, l.Addr().String(), leaseHello())
		ok(t, err)
		victim, err := l.Accept(timeout(t))
		ok(t, err)
		defer victim.Close()
		s, err := victim.Lend(timeout(t), buffer(t, server, 4096), MayRead, 0)
		ok(t, err)
		ok(t, victim.Flush(timeout(t))) // a window is bound
		h := wire.Header{Kind: wire.Return, Limit: link.StartWindow, Length: 4}
		h.Put(a.mr.Bytes())
		_ = a.send(ibv.SendWR{Opcode: ibv.OpSendInv, SGEs: []ibv.SGE{a.mr.SGE(0, wire.HeaderLen+4)},
			InvalidateRKey: s.key.remote.RKey})
		<-victim.Done()
		if err := victim.Err(); !isProtocol(err) {
			t.Errorf("the victim's error: %v", err)
		}
		if _, err := s.Wait(timeout(t)); err == nil {
			t.Error("the lease has ended without an error")
		}
	})
}
