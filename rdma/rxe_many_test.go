package rdma

import (
	"net"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// TestRXE_BlocksOfIdleSenders has connections send a little and fall idle. The blocks of what they sent must not stay
// with them until their next completion: there are fewer blocks than that.
func TestRXE_BlocksOfIdleSenders(t *testing.T) {
	needLogic(t)
	server, _ := newEngines(t, nil)
	_, small := newEngines(t, &EngineOptions{Memory: link.SlabSize}) // 126 blocks, some of them for receiving
	r := testutil.NeedRXE(t)
	ctx := timeout(t)
	opt := from(r, small)
	opt.KeepAlive = None // its PINGs would bring the completions
	l, err := Listen(ctx, net.JoinHostPort(r.IP[0], "0"), &Options{Engine: server})
	ok(t, err)
	defer l.Close()
	p := make([]byte, 100)
	count := 30
	if small.e.Shards[0].Receives.Shared == nil {
		count = small.e.Shards[0].Blocks.Receivable() / (link.StartWindow + link.OwnBlocks)
	}
	for range count {
		a, err := Dial(ctx, l.Addr().String(), opt)
		ok(t, err)
		defer a.Close()
		b, err := l.Accept(ctx)
		ok(t, err)
		defer b.Close()
		for range 5 {
			ok(t, a.Send(ctx, p))
			m, err := b.Recv(ctx)
			ok(t, err)
			m.Release()
		}
	}
}

// TestRXE_ManyConns has many connections send at once, more than there is memory for their windows. None may wait for a
// PING to bring completions.
func TestRXE_ManyConns(t *testing.T) {
	needLogic(t)
	count, each, opts := 40, 50, &EngineOptions{Memory: 2 * link.SlabSize}
	if testutil.Full() {
		count, each, opts = 1000, 100, nil
	}
	server, client := newEngines(t, opts)
	r := testutil.NeedRXE(t)
	ctx := timeout(t)
	opt := from(r, client)
	opt.KeepAlive = None
	l, err := Listen(ctx, net.JoinHostPort(r.IP[0], "0"), &Options{Engine: server, KeepAlive: None})
	ok(t, err)
	defer l.Close()
	pairs := make([][2]*Conn, count)
	for i := range pairs {
		for k, open := range []func() (*Conn, error){
			func() (*Conn, error) { return Dial(ctx, l.Addr().String(), opt) },
			func() (*Conn, error) { return l.Accept(ctx) },
		} {
			c, err := open()
			ok(t, err)
			defer c.Close()
			pairs[i][k] = c
		}
	}
	t.Log("connected")
	var all sync.WaitGroup
	p := make([]byte, 4<<10)
	for _, pair := range pairs {
		all.Go(func() {
			for range each {
				if err := pair[0].Send(ctx, p); err != nil {
					t.Error(err)
					return
				}
			}
		})
		all.Go(func() {
			for range each {
				m, err := pair[1].Recv(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				m.Release()
			}
		})
	}
	all.Wait()
}
