package rdma

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/internal/attempts"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// dialer makes pairs of ends, each an end of messages or of a stream, until there is no memory for more.
type dialer struct {
	server, client *Engine
	kind           wire.ConnKind
	l              *listener
}

func newDialer(t *testing.T, server, client *Engine, kind wire.ConnKind) *dialer {
	d := &dialer{server: server, client: client, kind: kind}
	if server.e.Device == nil {
		return d
	}
	l, err := listen(timeout(t), net.JoinHostPort(testutil.NeedRXE(t).IP[0], "0"), kind,
		&Options{Engine: server, Timeout: testutil.Patience})
	ok(t, err)
	t.Cleanup(func() { ok(t, l.close()) })
	d.l = l
	return d
}

// pair returns a new connection of an engine, client or another, and its end on the server.
func (d *dialer) pair(t *testing.T, client *Engine) (a, b *link.Link, err error) {
	if d.server.e.Device == nil {
		ends, err := pipe(d.kind, [2]*Engine{client, d.server}, [2]*Options{{}, {}})
		return ends[0], ends[1], err
	}
	o := from(testutil.NeedRXE(t), client)
	o.Timeout = testutil.Patience
	if a, err = dial(timeout(t), d.l.addr().String(), d.kind, o, new(attempts.Finish)); err != nil {
		return nil, nil, err
	}
	b, err = d.l.accept(timeout(t))
	return a, b, err
}

// echoes returns what it receives until the connection ends, as an ordinary server does.
func echoes(b *link.Link) {
	defer b.Close()
	if b.Kind == wire.Stream {
		s := newStream(b)
		buf := make([]byte, 64<<10)
		for {
			n, err := s.Read(buf)
			if err != nil {
				return
			}
			if _, err := s.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	c := &Conn{b}
	for {
		m, err := c.Recv(context.Background())
		if err != nil {
			return
		}
		err = c.Send(context.Background(), m.Bytes())
		m.Release()
		if err != nil {
			return
		}
	}
}

// hears reports whether a short frame goes to the server and comes back.
func hears(ctx context.Context, a *link.Link) error {
	const text = "hello"
	if a.Kind == wire.Stream {
		if _, err := a.Write(turn.Bound{Ctx: ctx}, []byte(text)); err != nil {
			return err
		}
		got := ""
		for len(got) < len(text) {
			if err := a.Reader.Turn.Enter(turn.Bound{Ctx: ctx}); err != nil {
				return err
			}
			err := a.Reader.Begin(turn.Bound{Ctx: ctx})
			if err == nil {
				got += string(a.Reader.Current.Bytes())
				a.Reader.Finish()
			}
			a.Reader.Turn.Leave()
			if err != nil {
				return err
			}
		}
		return nil
	}
	c := &Conn{a}
	if err := c.Send(ctx, []byte(text)); err != nil {
		return err
	}
	m, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	m.Release()
	return nil
}

// TestRXE_Stalled has an ordinary server, and clients that send and read no reply, so that its handlers wait to send.
// Old connections and new ones are served, or new ones are refused with a reason. As in docs/rdma.md: a peer that does
// not read stops its own sender, and nobody else.
func TestRXE_Stalled(t *testing.T) {
	needLogic(t)
	inMem := strings.HasPrefix(t.Name(), "TestMemory/")
	for _, c := range []struct {
		clients int
		memory  int64 // of the server, MiB
		least   int   // clients that are admitted
		most    int
	}{
		{10, 4, 10, 10}, {60, 16, 60, 60}, {60, 64, 60, 60}, {700, 256, 700, 700}, {700, 8, 50, 699},
		{4000, 256, 500, 4000}, // as the windows of the first ones have grown
	} {
		for _, kind := range []wire.ConnKind{wire.Messages, wire.Stream} {
			if c.clients > 60 && !inMem && !testutil.Full() && !(c.memory == 256 && c.clients == 700) ||
				c.clients > 700 && !inMem && kind == wire.Stream {
				continue
			}
			t.Run(fmt.Sprintf("%d clients, %d MiB, %v", c.clients, c.memory, kind), func(t *testing.T) {
				testStalled(t, c.clients, c.memory<<20, kind, c.least, c.most)
			})
		}
	}
}

func testStalled(t *testing.T, clients int, memory int64, kind wire.ConnKind, least, most int) {
	server, client := newEnginesOf(t, func(i int) *EngineOptions {
		if i == 0 {
			return &EngineOptions{Memory: memory}
		}
		return &EngineOptions{Memory: 1 << 30}
	})
	if server.e.Shards[0].Receives.Shared == nil {
		t.Skip("the device has no SRQ")
	}
	d := newDialer(t, server, client, kind)
	var serving, senders sync.WaitGroup
	var ends, served []*link.Link
	defer func() {
		for _, l := range ends {
			l.CloseNow()
		}
		senders.Wait()
		serving.Wait()
	}()
	begin := func() (*link.Link, error) {
		a, b, err := d.pair(t, client)
		if err != nil {
			var refused *RejectError
			if !errors.Is(err, ErrNoMemory) && !(errors.As(err, &refused) && refused.Reason == RejectedMemory) {
				t.Fatalf("connection %d: %v", len(ends), err)
			}
			return nil, err
		}
		ends = append(ends, a)
		served = append(served, b)
		serving.Go(func() { echoes(b) })
		return a, nil
	}
	var old []*link.Link
	for range 3 {
		a, err := begin()
		ok(t, err)
		ok(t, hears(timeout(t), a))
		old = append(old, a)
	}
	var refused error
	var stalled []*link.Link
	for range clients {
		a, err := begin()
		if err != nil {
			refused = err
			break
		}
		stalled = append(stalled, a)
		senders.Go(func() { // until the connection ends
			for {
				if kind == wire.Stream {
					if _, err := a.Write(turn.Bound{Ctx: t.Context()}, make([]byte, 20<<10)); err != nil {
						return
					}
				} else if err := (&Conn{a}).Send(t.Context(), make([]byte, 20<<10)); err != nil {
					return
				}
			}
		})
	}
	if n := len(stalled); n < least || n > most {
		t.Errorf("%d of %d clients were admitted, then %v; want %d to %d", n, clients, refused, least, most)
	}
	testutil.Eventually(t, "the server takes no more", func() bool {
		return !slices.ContainsFunc(slices.Concat(stalled, served[len(old):]), func(l *link.Link) bool {
			l.Mu.Lock()
			defer l.Mu.Unlock()
			return !l.Starved()
		})
	})
	st := server.Stats()
	t.Logf("%d clients stand still: %+v", len(stalled), st)
	if st.Stalled != len(stalled) || st.BlocksPosted == 0 || st.Promised == 0 {
		t.Errorf("%+v: want stalled connections, receives and promises to be counted", st)
	}
	for i, a := range old {
		if err := hears(timeout(t), a); err != nil {
			t.Fatalf("old connection %d: %v", i, err)
		}
	}
	for i := range 3 {
		a, err := begin()
		if err != nil {
			if least == clients {
				t.Errorf("new connection %d: %v", i, err)
			}
			continue
		}
		if err := hears(timeout(t), a); err != nil {
			t.Fatalf("new connection %d: %v", i, err)
		}
	}
	if refused != nil && server.Stats().Refused == 0 && server.e.Device != nil {
		t.Error("the refusals were not counted")
	}
	for i, a := range stalled { // a client that reads after all gets its replies
		if i%10 != 0 {
			continue
		}
		if kind == wire.Stream {
			s := newStream(a)
			if _, err := io.ReadFull(s, make([]byte, 40<<10)); err != nil {
				t.Fatalf("client %d: %v", i, err)
			}
			continue
		}
		for range 2 {
			m, err := (&Conn{a}).Recv(timeout(t))
			if err != nil {
				t.Fatalf("client %d: %v", i, err)
			}
			m.Release()
		}
	}
}

// TestRXE_KeptMessages has a program keep messages of connections that have ended. Others have their receives.
func TestRXE_KeptMessages(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{Memory: 16 << 20})
	needSRQ(t, server)
	var kept []*Message
	for range 20 {
		a, b := conns(t, server, client)
		for range link.StartWindow {
			ok(t, a.Send(timeout(t), make([]byte, 20<<10)))
			m, err := b.Recv(timeout(t))
			ok(t, err)
			kept = append(kept, m)
		}
		ok(t, a.Close())
		ok(t, b.Close())
	}
	testutil.Eventually(t, "they have ended", func() bool { return server.Stats().Conns == 0 })
	a, b := conns(t, server, client)
	defer b.Close()
	defer a.Close()
	if st := server.Stats(); st.BlocksPosted < link.StartWindow {
		t.Errorf("%+v; want receives for the only connection", st)
	}
	for range 10 {
		exchangeConns(t, a, b)
	}
	for _, m := range kept {
		m.Release()
	}
	if st := server.Stats(); st.BlocksHeld > 0 {
		t.Errorf("%+v; want no block to be held", st)
	}
}

// exchangeConns sends a short message each way.
func exchangeConns(t *testing.T, a, b *Conn) {
	t.Helper()
	for range 2 {
		ok(t, a.Send(timeout(t), []byte("hello")))
		m, err := b.Recv(timeout(t))
		ok(t, err)
		m.Release()
		a, b = b, a
	}
}

// takeBlocks takes all blocks that there are to send from.
func takeBlocks(t *testing.T, s *link.Shard) (list []*link.Block) {
	t.Helper()
	w := &blocks.Sender{Wake: func() {}}
	defer s.Blocks.Leave(w)
	for {
		b, err := s.Blocks.Take(w, link.LargeBlock)
		ok(t, err)
		if b == nil {
			return list
		}
		list = append(list, b)
	}
}

// TestRXE_NoBlocks lets others have all blocks, as frames to dead peers have: each connection can still send a short
// frame in each direction, and a long one when blocks come back.
func TestRXE_NoBlocks(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{Memory: 16 << 20})
	a, b := conns(t, server, client)
	defer b.Close()
	defer a.Close()
	c, d := streams(t, server, client)
	defer d.Close()
	defer c.Close()
	var taken [][]*link.Block
	for _, s := range []*link.Shard{a.l.Shard, b.l.Shard} {
		taken = append(taken, takeBlocks(t, s))
	}
	for range 20 {
		exchangeConns(t, a, b)
		for _, p := range [][2]*Stream{{c, d}, {d, c}} {
			_, err := p[0].Write([]byte("hello"))
			ok(t, err)
			_, err = io.ReadFull(p[1], make([]byte, 5))
			ok(t, err)
		}
	}
	buf, err := client.Pool().Register(make([]byte, 10_000))
	ok(t, err)
	if a.l.Writer.OneSGE {
		buf.Release() // it would be copied
	} else {
		ok(t, a.SendBuffer(timeout(t), buf)) // its header is in the short block
		m, err := b.Recv(timeout(t))
		ok(t, err)
		if m.Len() != 10_000 {
			t.Errorf("%d bytes of a buffer, want 10000", m.Len())
		}
		m.Release()
	}
	done := make(chan error, 1)
	go func() { done <- a.Send(timeout(t), make([]byte, 10_000)) }()
	testutil.Eventually(t, "the long message waits for a block", func() bool { return a.l.Shard.Blocks.Scarce.Load() })
	if len(done) > 0 {
		t.Errorf("a message of 10000 bytes was sent without a block: %v", <-done)
	}
	a.l.Shard.Blocks.GiveAll(taken[0])
	b.l.Shard.Blocks.GiveAll(taken[1])
	m, err := b.Recv(timeout(t))
	ok(t, err)
	m.Release()
	ok(t, <-done)
}

// TestRXE_IdleMemory has a busy time. Then nothing is open, and the memory is there for buffers: at once if a buffer
// needs it, and else after a tick.
func TestRXE_IdleMemory(t *testing.T) {
	needLogic(t)
	const memory = 64 << 20
	for _, ask := range []bool{false, true} {
		server, client := newEngines(t, &EngineOptions{Memory: memory})
		if server.e.Device == nil {
			t.Skip("engines in memory keep their receives")
		}
		var all sync.WaitGroup
		for i := range 20 {
			a, b := streams(t, server, client)
			c, d := conns(t, server, client)
			all.Go(func() {
				defer a.Close()
				_, err := a.Write(make([]byte, 4<<20))
				ok(t, err)
			})
			all.Go(func() {
				defer b.Close()
				_, err := io.Copy(io.Discard, b)
				ok(t, err)
			})
			all.Go(func() {
				defer c.Close()
				for range 200 {
					ok(t, c.Send(timeout(t), make([]byte, 30_000-i)))
				}
			})
			all.Go(func() {
				defer d.Close()
				for {
					m, err := d.Recv(timeout(t))
					if err == io.EOF {
						return
					}
					ok(t, err)
					m.Release()
				}
			})
		}
		all.Wait()
		most := memory - link.SlabSize
		testutil.Eventually(t, "they have ended", func() bool { return server.Stats().Conns+client.Stats().Conns == 0 })
		for _, e := range []*Engine{server, client} {
			if !ask {
				testutil.Eventually(t, "the engine has few blocks", func() bool {
					st := e.Stats()
					return st.Memory <= link.SlabSize && st.Blocks == e.e.Shards[0].Blocks.PerSlab
				})
			}
			b, err := e.Pool().Get(most - link.Headroom)
			ok(t, err)
			if _, err := e.Pool().Get(1 << 20); !errors.Is(err, ErrNoMemory) {
				t.Errorf("more than there is: %v, want ErrNoMemory", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			waits := make(chan error)
			go func() {
				b, err := e.Pool().GetWait(ctx, 1<<20)
				if err == nil {
					b.Release()
				}
				waits <- err
			}()
			testutil.Eventually(t, "GetWait waits", func() bool { return e.e.Pool.Wanted() })
			b.Release()
			ok(t, <-waits)
			cancel()
			if _, err := e.Pool().GetWait(timeout(t), most); !errors.Is(err, ErrNoMemory) {
				t.Errorf("GetWait of what the engine can never have: %v, want ErrNoMemory", err)
			}
		}
		a, b := conns(t, server, client) // with a new SRQ
		exchangeConns(t, a, b)
		ok(t, a.Close())
		ok(t, b.Close())
		c, d := streams(t, server, client)
		_, err := c.Write([]byte("hello"))
		ok(t, err)
		_, err = io.ReadFull(d, make([]byte, 5))
		ok(t, err)
		ok(t, c.Close())
		ok(t, d.Close())
	}
}

// TestRXE_GetWaitConns waits for memory that connections have: it is there when they have ended.
func TestRXE_GetWaitConns(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{Memory: 8 << 20})
	if server.e.Device == nil {
		t.Skip("engines in memory keep their receives")
	}
	needSRQ(t, server)
	var list []*Conn
	for range 2 { // windows that need two slabs, which is all memory
		a, b := conns(t, server, client)
		grow(t, b, a, wire.MaxWindow*3/4)
		list = append(list, a, b)
	}
	if _, err := client.Pool().Get(2 << 20); !errors.Is(err, ErrNoMemory) {
		t.Errorf("%v, want ErrNoMemory", err)
	}
	waits := make(chan error)
	go func() {
		b, err := client.Pool().GetWait(timeout(t), 2<<20)
		if err == nil {
			b.Release()
		}
		waits <- err
	}()
	testutil.Eventually(t, "GetWait waits", func() bool { return client.e.Pool.Wanted() })
	for _, c := range list {
		ok(t, c.Close())
	}
	ok(t, <-waits)
}
