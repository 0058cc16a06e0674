package rdma

import (
	"errors"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// ownQueueEngines are engines whose connections have receive queues of their own.
func ownQueueEngines(t *testing.T, opt *EngineOptions) (server, client *Engine) {
	t.Helper()
	defer func(was bool) { link.OwnQueues = was }(link.OwnQueues)
	link.OwnQueues = true
	return newEngines(t, opt)
}

// TestRXE_OwnQueues sends in every way without an SRQ, and checks which connection has how many blocks.
func TestRXE_OwnQueues(t *testing.T) {
	server, client := ownQueueEngines(t, nil)
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	x, y := streams(t, server, client)
	defer x.Close()
	defer y.Close()
	if s := server.Stats(); s.BlocksPosted != 2*(link.StartWindow+link.OwnBlocks) {
		t.Errorf("%+v; want the receives of two connections", s)
	}
	echo(t, a, b)
	carry(t, x, y, 3<<20, 1)
	carry(t, y, x, 3<<20, 2)
	want := uint32(min(wire.MaxWindow, server.e.Sizes.MaxRecvWR-link.OwnBlocks-wire.ControlWindow))
	if n := grow(t, a, b, want); n != want {
		t.Errorf("a window of %d, want %d", n, want)
	}
	ok(t, a.Close())
	ok(t, b.Close())
	ok(t, x.Close())
	ok(t, y.Close())
	testutil.Eventually(t, "all blocks are free", func() bool {
		s := server.Stats()
		return s.BlocksFree == s.Blocks
	})
}

// TestRXE_OwnQueuesFull begins connections until there is no memory for the receives of another one.
func TestRXE_OwnQueuesFull(t *testing.T) {
	needLogic(t)
	server, client := ownQueueEngines(t, &EngineOptions{Memory: link.SlabSize})
	most := server.e.Shards[0].Blocks.Receivable() / (link.StartWindow + link.OwnBlocks)
	var list [][2]*Conn
	for range most {
		a, b := conns(t, server, client)
		list = append(list, [2]*Conn{a, b})
	}
	l, err := Listen(timeout(t), testutil.NeedRXE(t).IP[0]+":0", &Options{Engine: server, Timeout: testutil.Patience})
	ok(t, err)
	defer l.Close()
	var limit *ibv.LimitError
	_, err = Dial(timeout(t), l.Addr().String(), from(testutil.NeedRXE(t), client))
	if !errors.Is(err, ErrNoMemory) || !errors.As(err, &limit) {
		t.Errorf("connection %d: %v, want ErrNoMemory and a *LimitError", most+1, err)
	}
	for _, p := range list {
		burst(t, p[0], p[1], 20)
	}
	for _, p := range list {
		ok(t, p[0].Close())
		ok(t, p[1].Close())
	}
	testutil.Eventually(t, "a connection can begin again", func() bool {
		a, err := Dial(timeout(t), l.Addr().String(), from(testutil.NeedRXE(t), client))
		if err != nil {
			return false
		}
		b, err := l.Accept(timeout(t))
		ok(t, err)
		echo(t, a, b)
		ok(t, a.Close())
		ok(t, b.Close())
		return true
	})
}
