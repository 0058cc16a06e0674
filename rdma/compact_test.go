package rdma

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestEngine_Compact begins connections until there is no memory for more. Those that begin late are compact: one line
// in the engine's log says so, and Stats counts them. Each carries messages of any length.
func TestEngine_Compact(t *testing.T) {
	var log bytes.Buffer
	engines := memoryEngines(t, func(i int) *EngineOptions {
		if i == 1 {
			return nil
		}
		return &EngineOptions{Memory: 4 << 20, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	})
	small := engines[0]
	var ends [][2]*link.Link
	defer func() {
		for _, p := range ends {
			p[0].CloseNow()
			p[1].CloseNow()
		}
	}()
	for {
		p, err := pipe(wire.Messages, [2]*Engine{small, engines[1]}, [2]*Options{{}, {}})
		if err != nil {
			if !errors.Is(err, ErrNoMemory) || !strings.Contains(err.Error(), "EngineOptions.Memory") {
				t.Errorf("%v, want ErrNoMemory that names the option", err)
			}
			break
		}
		ends = append(ends, p)
	}
	st := small.Stats()
	whole := len(ends) - st.Compact
	if whole != 23 || st.Compact < 10*whole || st.Promised == 0 { // 47 of the 95 blocks for receiving
		t.Errorf("%d connections, %+v; want 23 with blocks, and ten times as many that are compact", len(ends), st)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "EngineOptions.Memory") {
		t.Errorf("%d lines in the log, want one: %s", n, &log)
	}
	for i, p := range ends {
		c, peer := &Conn{p[0]}, &Conn{p[1]}
		if got := peer.Peer().Block; (got == link.CompactFrame) != (i >= whole) {
			t.Errorf("connection %d: frames of %d bytes", i, got)
		}
		if i%50 != 0 && i != whole {
			continue
		}
		for _, n := range []int{0, 1, link.CompactFrame, link.CompactFrame + 1, 100_000} {
			done := make(chan error, 1)
			go func() { done <- peer.SendImm(t.Context(), uint32(n), bytes.Repeat([]byte{byte(n)}, n)) }()
			m, err := c.Recv(timeout(t))
			ok(t, err)
			if imm, _ := m.Imm(); int(imm) != n || !bytes.Equal(m.Bytes(), bytes.Repeat([]byte{byte(n)}, n)) {
				t.Errorf("connection %d: %d bytes, immediate %d; want %d", i, m.Len(), imm, n)
			}
			m.Release()
			ok(t, <-done)
			ok(t, c.Send(timeout(t), make([]byte, n))) // its peer has plenty
			m, err = peer.Recv(timeout(t))
			ok(t, err)
			m.Release()
		}
	}
	last := ends[len(ends)-1]
	last[1].Peer.Block = link.DefaultBlock // a peer that sends longer frames than it may
	ok(t, (&Conn{last[1]}).Send(timeout(t), make([]byte, link.CompactFrame+1)))
	var broke *ProtocolError
	if _, err := (&Conn{last[0]}).Recv(timeout(t)); !errors.As(err, &broke) || !strings.Contains(err.Error(), "2048") {
		t.Errorf("a frame that is too long: %v, want a *ProtocolError with the limit", err)
	}
	testutil.Eventually(t, "its frames were given back", func() bool { return small.Stats().BlocksHeld == 0 })
}
