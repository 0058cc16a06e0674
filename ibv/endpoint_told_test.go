package ibv

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestFake_StaleEndpoint changes the port between Endpoint and Connect.
func TestFake_StaleEndpoint(t *testing.T) {
	type knobs map[string]int
	v4 := must(ParseGID("::ffff:10.8.0.77"))(t)
	there := Endpoint{QPN: 0x99, GID: v4, MTU: MTU4096}
	away := must(ParseGID("2001:db8::1"))(t)
	for _, c := range []struct {
		name          string
		before, after knobs
		peer          Endpoint
		opt           ConnectOptions
		want          []string // nil: connected
	}{
		{name: "nothing", peer: there},
		{"GID", nil, knobs{"gid.moved": 0x100}, there, ConnectOptions{}, []string{"GID 1 of fake0 port 1",
			"was ::ffff:10.8.0.1 ", "is ::ffff:10.8.1.1 now", "call Endpoint again"}},
		{"no GID", nil, knobs{"gid.gone": 1}, there, ConnectOptions{}, []string{"GID 1", "an empty entry"}},
		{"type of the GID", nil, knobs{"gid_type": 1}, there, ConnectOptions{}, []string{"RoCEv2 when", "RoCEv1 now"}},
		{"smaller MTU", nil, knobs{"port.mtu": int(MTU1024)}, there, ConnectOptions{},
			[]string{"MTU", "4096", "1024 now"}},
		{"smaller MTU, as the peer's", nil, knobs{"port.mtu": int(MTU1024)}, Endpoint{QPN: 1, GID: v4, MTU: MTU1024},
			ConnectOptions{}, nil},
		{"smaller MTU than was chosen", nil, knobs{"port.mtu": int(MTU1024)}, there, ConnectOptions{MTU: MTU512}, nil},
		{"larger MTU", knobs{"port.mtu": int(MTU1024)}, knobs{"port.mtu": int(MTU4096)}, there, ConnectOptions{}, nil},
		{"LID", knobs{"port.link_layer": 1, "port.lid": 7}, knobs{"port.lid": 8}, Endpoint{QPN: 1, LID: 3},
			ConnectOptions{}, []string{"LID", "0x0007 when", "0x0008 now"}},
		{"LID of the port's", knobs{"port.link_layer": 1, "port.lid": 16, "port.lmc": 2}, nil, Endpoint{QPN: 1, LID: 3},
			ConnectOptions{Local: &Endpoint{LID: 18}}, nil},
		{"GID within a subnet", knobs{"port.link_layer": 1, "port.lid": 7}, knobs{"gid.moved": 1},
			Endpoint{QPN: 1, LID: 3}, ConnectOptions{}, nil},
		{"GID of another subnet", knobs{"port.link_layer": 1, "port.lid": 7}, knobs{"gid.moved": 1},
			Endpoint{QPN: 1, LID: 3, GID: away}, ConnectOptions{}, []string{"GID 1"}},
		{"GID that the peer was given by hand", nil, knobs{"gid.moved": 1}, there,
			ConnectOptions{Local: &Endpoint{PSN: 5}}, []string{"GID 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.before {
				set(t, k, v)
			}
			s := fakeSide(t, nil)
			qp := s.newQP(t, nil)
			must(qp.Endpoint(1, 1))(t)
			for k, v := range c.after {
				set(t, k, v)
			}
			err := qp.Connect(c.peer, &c.opt)
			var stale *StaleEndpointError
			switch {
			case c.want == nil:
				ok(t, err)
				return
			case !errors.As(err, &stale) || stale.Told == stale.Now || stale.Device != "fake0" || stale.Port != 1:
				t.Fatalf("%+v, %v", stale, err)
			case qp.State() != StateReset:
				t.Errorf("the QP is in %v", qp.State())
			}
			wantErr(t, err, syscall.EADDRNOTAVAIL, c.want...)
			_, err = qp.Address(c.peer, &c.opt)
			if gid := strings.HasPrefix(stale.What, "GID"); gid != errors.As(err, &stale) {
				t.Errorf("address: %v", err)
			}
			if c.after["gid.gone"] == 0 { // told anew
				must(qp.Endpoint(1, 1))(t)
				ok(t, qp.Connect(c.peer, nil))
			}
		})
	}
}

// TestFake_GIDVersions connects to peers with GIDs of each type.
func TestFake_GIDVersions(t *testing.T) {
	v4 := must(ParseGID("::ffff:10.8.0.77"))(t)
	for _, mine := range []GIDType{GIDTypeRoCEv1, GIDTypeRoCEv2} {
		for peers := range GIDTypeRoCEv2 + 1 { // 0 is that of an older release
			set(t, "gid_type", int(mine))
			s := fakeSide(t, nil)
			qp := s.newQP(t, nil)
			if e := must(qp.Endpoint(1, 1))(t); e.GIDType != mine || e.LID != 0 {
				t.Errorf("endpoint %+v, of a GID of %v", e, mine)
			}
			err := qp.Connect(Endpoint{QPN: 1, GID: v4, GIDType: peers}, nil)
			if peers == 0 || peers == mine {
				ok(t, err)
				continue
			}
			wantErr(t, err, syscall.EINVAL, "the type of the peer's GID is "+peers.String(), mine.String(),
				"GID 1 of fake0")
		}
	}
}

// TestRXE_StaleEndpoint takes an address away between Endpoint and Connect.
func TestRXE_StaleEndpoint(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rxe.NeedRoCE(t) // on InfiniBand GIDs do not address a QP within a subnet
	a, b := newSide(t, 0, nil), newSide(t, 1, nil)
	a.newQP(t, nil)
	b.newQP(t, nil)
	peer := must(b.qp.Endpoint(rxe.Port, rxe.GID))(t)
	extra := must(ParseGID("::ffff:10.8.9.9"))(t)
	find := func() (at int) { // -1: it is not there
		for _, e := range must(a.dev.GIDTable())(t) {
			if e.GID == extra && e.Port == rxe.Port && e.Type == GIDTypeRoCEv2 {
				return e.Index
			}
		}
		return -1
	}
	change := func(more bool) (at int) {
		t.Helper()
		rxe.ChangeGIDs(t, 0, more)
		for end := time.Now().Add(testutil.Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if at = find(); at >= 0 == more {
				return at
			}
		}
		t.Fatalf("the GID did not change to %v", more)
		return 0
	}
	at := change(true)
	told := must(a.qp.Endpoint(rxe.Port, at))(t)
	if told.GID != extra || told.GIDType != GIDTypeRoCEv2 {
		t.Errorf("endpoint %+v", told)
	}
	change(false)
	var stale *StaleEndpointError
	if err := a.qp.Connect(peer, nil); !errors.As(err, &stale) || !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("connect without the address that the peer was told: %v", err)
	}
	told = must(a.qp.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, a.qp.Connect(peer, nil))
	ok(t, b.qp.Connect(told, nil))
	peer.GIDType = GIDTypeRoCEv1
	other := a.newQP(t, nil)
	must(other.Endpoint(rxe.Port, rxe.GID))(t)
	wantErr(t, other.Connect(peer, nil), syscall.EINVAL, "RoCEv1", "RoCEv2")
}
