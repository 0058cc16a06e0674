package rdma

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// sendDue adds what is due to a list of work requests, as if it were posted, with credits for n data frames.
func sendDue(l *link.Link, n uint32) (list []sendq.What) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Queue.Begin(sendq.Gates{Data: n})
	for what := l.Queue.Pick(); what != sendq.None; what = l.Queue.Pick() {
		l.Queue.Add(what, wire.Header{})
		list = append(list, what)
	}
	for _, h := range l.Queue.Inlined() {
		l.GiveUp(h)
	}
	if l.Queue.Roomy() {
		l.WakeWriter()
	}
	return list
}

// TestFlushGivesUp has Flush wait for a completion that does not come: nothing is left of it.
func TestFlushGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeConn()
		if err := c.Send(t.Context(), make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
		sendDue(c.l, 1)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := c.Flush(ctx); err != context.DeadlineExceeded {
				t.Errorf("Flush: %v", err)
			}
			cancel()
		}
		if n := c.l.Queue.Waits(); n != 0 {
			t.Errorf("%d waits are kept", n)
		}
		if got := sendDue(c.l, 0); !slices.Equal(got, []sendq.What{sendq.Ping}) {
			t.Errorf("%v was sent, want a PING", got)
		}
		flushed := make(chan error)
		go func() { flushed <- c.Flush(t.Context()) }()
		synctest.Wait()
		c.l.Mu.Lock()
		c.l.Release(2, 2)
		c.l.Queue.Confirm()
		c.l.Mu.Unlock()
		if err := <-flushed; err != nil {
			t.Errorf("Flush: %v", err)
		}
		if n := c.l.Shard.Blocks.Counts(); n.Free != n.Blocks {
			t.Errorf("%d of %d blocks are free", n.Free, n.Blocks)
		}
	})
}

// TestSendInterrupted ends sending, or the context, while a message of several frames is staged in part: the peer is
// asked to drop what it has of it, before the FIN.
func TestSendInterrupted(t *testing.T) {
	for _, sent := range []uint32{0, 1} {
		for name, end := range map[string]func(c *Conn, cancel func()){
			"CloseSend": func(c *Conn, _ func()) { _ = c.l.CloseSend() },
			"a context": func(_ *Conn, cancel func()) { cancel() },
		} {
			synctest.Test(t, func(t *testing.T) {
				c := fakeConn()
				c.l.Peer.MaxMessage = 1000
				ctx, cancel := context.WithCancel(t.Context())
				failed := make(chan error)
				go func() { failed <- c.Send(ctx, make([]byte, 1000)) }()
				synctest.Wait()
				if got := sendDue(c.l, sent); len(got) != int(sent) {
					t.Errorf("%v was sent, want %d data frames", got, sent)
				}
				end(c, cancel)
				if err := <-failed; err == nil {
					t.Error("Send returned nil")
				}
				cancel()
				_ = c.l.CloseSend()
				want := []sendq.What{sendq.Data, sendq.FIN}[1-sent:]
				if got := sendDue(c.l, 5); !slices.Equal(got, want) {
					t.Errorf("%s, with %d frames sent: %v followed, want %v", name, sent, got, want)
				}
				c.l.Mu.Lock()
				c.l.Release(c.l.Queue.Posted, c.l.Queue.Posted)
				c.l.Mu.Unlock()
				if n := c.l.Shard.Blocks.Counts(); n.Free != n.Blocks {
					t.Errorf("%s, with %d frames sent: %d of %d blocks are free", name, sent, n.Free, n.Blocks)
				}
			})
		}
	}
}
