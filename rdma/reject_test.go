package rdma

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// TestRefusals logs the first refusal at once, and those of a minute in one line.
func TestRefusals(t *testing.T) {
	var r link.Lines
	start := time.Now()
	for _, c := range []struct {
		at   time.Duration
		want uint64
	}{{0, 1}, {0, 0}, {59 * time.Second, 0}, {time.Minute, 3}, {119 * time.Second, 0}, {time.Hour, 2}} {
		if n := r.Due(start.Add(c.at)); n != c.want {
			t.Errorf("after %v: a line about %d refusals, want %d", c.at, n, c.want)
		}
	}
}

// TestLack has the reason that each kind of error means to a peer.
func TestLack(t *testing.T) {
	for _, c := range []struct {
		err  error
		want wire.RejectReason
	}{
		{&ibv.OpError{Op: "connect", Err: link.ErrGone}, wire.RejectClosed},
		{&ibv.OpError{Op: "connect", Err: ErrClosed}, wire.RejectClosed},
		{&ibv.LimitError{What: "connections"}, wire.RejectMaxConns},
		{&ibv.MemlockError{}, wire.RejectMemory},
		{&ibv.OpError{Op: "resize cq", Err: syscall.ENOMEM}, wire.RejectMemory},
		{ErrNoMemory, wire.RejectMemory},
		{syscall.EIO, wire.RejectOther},
	} {
		if got := lack(c.err, wire.RejectOther); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// TestReasons: each reason of a refusal or a RESET has a text, and reasons of later versions their number.
func TestReasons(t *testing.T) {
	texts := make(map[string]bool)
	for r := RejectedMaxConns; r <= RejectedUnfinished; r++ {
		texts[r.String()] = true
	}
	for r := range link.ResetError(wire.ResetClosed) {
		texts[(r + 1).Error()] = true
	}
	for s := range texts {
		if strings.Contains(s, "reason") {
			t.Errorf("no text, but %q", s)
		}
	}
	if want := int(RejectedUnfinished-RejectedMaxConns) + 1 + wire.ResetClosed; len(texts) != want {
		t.Errorf("%d texts, want %d: %v", len(texts), want, texts)
	}
	for _, s := range []string{RejectReason(200).String(), link.ResetError(200).Error()} {
		if !strings.HasSuffix(s, "reason 200") {
			t.Error(s)
		}
	}
}

// TestRejectError names the reason, and matches what TCP's refusal does.
func TestRejectError(t *testing.T) {
	err := explainReject(&ibv.OpError{Op: "dial", Err: &rdmacm.RejectError{Reason: rdmacm.RejectConsumer,
		PrivateData: rejection(wire.RejectMaxConns)}}, wire.Messages)
	var e *RejectError
	if !errors.As(err, &e) || e.Reason != RejectedMaxConns || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, want RejectedMaxConns and ECONNREFUSED", err)
	}
	const want = "the peer refused the connection: it has as many connections as its EngineOptions.MaxConns permits"
	if err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	late := explainReject(&rdmacm.RejectError{Reason: rdmacm.RejectConsumer, Accepted: true}, wire.Messages)
	if !errors.As(late, &e) || e.Reason != RejectedUnfinished || !errors.Is(late, syscall.ECONNREFUSED) {
		t.Errorf("%v, want RejectedUnfinished and ECONNREFUSED", late)
	}
	for _, other := range []*rdmacm.RejectError{{Reason: rdmacm.RejectConsumer},
		{Reason: rdmacm.RejectStaleConn, Accepted: true}} {
		if err := explainReject(other, wire.Messages); err != nil {
			t.Errorf("%v is explained as %v", other, err)
		}
	}
}
