package rdma

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// unread sends more than a peer that does not read takes, until the connection ends. Each row waits in another way, on
// a *Stream or on a *Conn.
var unread = map[string]any{
	"Write": func(_ *testing.T, s *Stream) error {
		_, err := s.Write(make([]byte, 1<<20))
		return err
	},
	"ReadFrom": func(_ *testing.T, s *Stream) error {
		_, err := s.ReadFrom(bytes.NewReader(make([]byte, 1<<20)))
		return err
	},
	"WriteBuffers": func(_ *testing.T, s *Stream) error {
		_, err := s.WriteBuffers([][]byte{make([]byte, 1<<19), make([]byte, 1<<19)})
		return err
	},
	"Send": func(t *testing.T, c *Conn) error {
		for {
			if err := c.Send(t.Context(), make([]byte, 20_000)); err != nil {
				return err
			}
		}
	},
	"LongMessage": func(t *testing.T, c *Conn) error { return c.Send(t.Context(), make([]byte, 1<<20)) },
	"SendBuffer": func(t *testing.T, c *Conn) error {
		b, err := c.Engine().Pool().Register(make([]byte, 1<<20))
		if err != nil {
			return err
		}
		return c.SendBuffer(t.Context(), b)
	},
	"Batch": func(t *testing.T, c *Conn) error {
		b := c.Batch()
		for range 32 {
			b.Send(make([]byte, 20_000))
		}
		_, err := b.Post(t.Context())
		return err
	},
}

// TestRXE_Unread has peers that do not read, more than there are blocks for. The writes to one that reads go on.
func TestRXE_Unread(t *testing.T) {
	needLogic(t)
	for name, send := range unread {
		for _, manual := range []bool{false, true} {
			if manual && name != "Write" && name != "Send" && !testutil.Full() {
				continue
			}
			t.Run(name+map[bool]string{true: "Manual"}[manual], func(t *testing.T) { testUnread(t, manual, send) })
		}
	}
}

func testUnread(t *testing.T, manual bool, send any) {
	memory := int64(2 * link.SlabSize)
	if probe, _ := newEngines(t, nil); probe.e.Shards[0].Receives.Shared == nil { // with blocks for each connection
		memory *= 2
	}
	server, client := newEnginesOf(t, func(i int) *EngineOptions {
		if i == 0 {
			return nil
		}
		return &EngineOptions{Memory: memory, Manual: manual}
	})
	const n = 40
	ended, links := make(chan error, n), []*link.Link(nil)
	for range n {
		switch send := send.(type) {
		case func(*testing.T, *Stream) error:
			s, peer := streams(t, server, client)
			links = append(links, s.l)
			defer peer.CloseNow()
			defer s.CloseNow()
			go func() { ended <- send(t, s) }()
		case func(*testing.T, *Conn) error:
			c, peer := conns(t, server, client)
			links = append(links, c.l)
			defer peer.CloseNow()
			defer c.CloseNow()
			go func() { ended <- send(t, c) }()
		}
	}
	used := func() (n int) {
		for _, l := range links {
			l.Mu.Lock()
			if l.Send.Left() == 0 {
				n++
			}
			l.Mu.Unlock()
		}
		return n
	}
	writer, reader := streams(t, server, client)
	defer reader.CloseNow()
	defer writer.CloseNow()
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, reader)
		read <- err
	}()
	testutil.Eventually(t, "the peers that do not read have all that they may have", func() bool { return used() == n })
	for i := range 300 {
		if _, err := writer.l.Write(turn.Bound{Ctx: timeout(t)}, make([]byte, 100)); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
		ok(t, writer.l.Writer.Flush(timeout(t)))
	}
	if c := client.e.Shards[0].Blocks.Counts(); c.Ahead > c.Blocks*9/16 {
		t.Errorf("%+v: more than nine sixteenths are taken ahead", c)
	}
	if len(ended) > 0 {
		t.Errorf("a sender has ended with %v", <-ended)
	}
	i := slices.IndexFunc(links, func(l *link.Link) bool {
		l.Mu.Lock()
		defer l.Mu.Unlock()
		return l.Writer.Parched
	})
	if i < 0 {
		t.Fatal("no sender waits for a credit: the test tells nothing")
	}
	ok(t, links[i].CloseSend())
	if err := <-ended; !errors.Is(err, link.ErrShutWrite) {
		t.Errorf("the sender that waited has ended with %v, want %v", err, link.ErrShutWrite)
	}
	ok(t, writer.Close())
	ok(t, <-read)
	ok(t, reader.Close())
	for _, l := range links {
		l.CloseNow()
	}
	for range n - 1 {
		if err := <-ended; err == nil {
			t.Error("what nobody reads was accepted")
		}
	}
}
