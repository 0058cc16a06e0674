package rdma

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

func TestRejections(t *testing.T) {
	var version *VersionError
	var protocol *ProtocolError
	reject := func(r wire.RejectReason) error {
		return explainReject(&rdmacm.RejectError{PrivateData: wire.Rejection{Min: 2, Max: 3, Reason: r}.Encode()},
			wire.Stream)
	}
	if err := reject(wire.RejectVersion); !errors.As(err, &version) || version.PeerMax != 3 {
		t.Errorf("a reject for the version: %v", err)
	}
	if err := reject(wire.RejectKind); !errors.As(err, &protocol) || !strings.Contains(err.Error(), "ListenStream") {
		t.Errorf("a reject for the kind: %v", err)
	}
	if err := reject(200); err == nil || !strings.Contains(err.Error(), "reason 200") {
		t.Errorf("a reject for a reason that only later versions know: %v", err)
	}
	foreign := &rdmacm.RejectError{PrivateData: []byte("something else")}
	if err := errors.Join(reject(wire.RejectOther), explainReject(foreign, wire.Stream)); err != nil {
		t.Errorf("a reject without a reason, and one of another program: %v", err)
	}
	if err := public(&wire.VersionError{PeerMin: 2, PeerMax: 3}); !errors.As(err, &version) {
		t.Errorf("public returns a %T", err)
	}
	if err := public(&wire.Error{Frame: "a", Got: "b", Want: "c"}); !errors.As(err, &protocol) || protocol.Want != "c" {
		t.Errorf("public returns a %T", err)
	}
	if err := public(nil); err != nil {
		t.Errorf("public(nil) is %v", err)
	}
}

func TestBadOptions(t *testing.T) {
	ctx := t.Context()
	var arg *ibv.ArgError
	var limit *ibv.LimitError
	for _, o := range []Options{{MaxMessage: -1}, {MaxMessage: 1 << 32}} {
		if _, err := Dial(ctx, "127.0.0.1:1", &o); !errors.As(err, &arg) {
			t.Errorf("%+v: %v", o, err)
		}
		if _, err := Listen(ctx, "127.0.0.1:1", &o); !errors.As(err, &arg) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := DialStream(ctx, "127.0.0.1:1", &Options{PrivateData: make([]byte, 17)}); !errors.As(err, &limit) {
		t.Errorf("17 bytes of private data: %v", err)
	}
	for _, o := range []EngineOptions{{Block: 100}, {Block: 1000}, {Block: 2 << 20}, {Block: -1}, {Block: -64},
		{Memory: 1}, {MaxConns: -1}, {Pollers: -1}, {Pollers: 65}, {Pollers: 2, Manual: true},
		{Pollers: 4, Memory: 15 << 20}} {
		if _, err := NewEngine("mlx5_0", &o); !errors.As(err, &arg) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if !errors.Is(ErrClosed, net.ErrClosed) {
		t.Error("ErrClosed does not match net.ErrClosed")
	}
}
