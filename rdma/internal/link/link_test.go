package link

import (
	"errors"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/credit"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// heapBlocks are n blocks in memory that no device has.
func heapBlocks(size, n int) *blocks.Set {
	slab, mem := int64(n*size), inmem.New()
	return blocks.NewSet(blocks.Config{Block: size, Slab: slab, Most: slab, Sets: 1,
		Budget: blocks.NewBudget(slab, slab), Short: func() {},
		Register: func(n int) (blocks.Memory, error) { return mem.Register(make([]byte, n), ibv.LocalWrite), nil }})
}

// TestIgnoredFrame receives a frame of an unknown kind that is to be ignored: nothing in it has an effect.
func TestIgnoredFrame(t *testing.T) {
	e := &Shard{Most: MostSmall, Blocks: heapBlocks(Headroom+64, 4)}
	var posted []*Block
	e.Blocks.Shared(4, 1)
	e.Blocks.Resume(func(list []*Block) int {
		posted = append(posted, list...)
		return len(list)
	})
	l := New(e, wire.Messages, Options{}, nil)
	b := e.Blocks.Arrived(posted[0].ID())
	send, recv := l.Send, l.Window.Recv
	h := wire.Header{Kind: 77, Flags: wire.FlagIgnore | wire.FlagLower, Seq: 12345, Limit: 20, Length: 999, Aux: 7}
	h.Put(b.Header())
	l.receive(b, wire.HeaderLen)
	if l.Send != send || l.Window.Recv != recv || l.End.Ending || l.Inbox.readable || l.Inbox.Len() > 0 {
		t.Errorf("an ignored frame has changed the connection: %+v, %+v, ended: %v", l.Send, l.Window.Recv,
			l.End.Ending)
	}
	if n := e.Blocks.Counts(); n.Held != 0 {
		t.Errorf("%d blocks are held, want 0", n.Held)
	}
}

// TestCheckFrame has frames that are wrong on this connection.
func TestCheckFrame(t *testing.T) {
	for _, c := range []struct {
		name string
		h    wire.Header
		do   func(*Link)
		want string
	}{
		{"the first frame", wire.Header{Limit: 2}, nil, ""},
		{"the highest limit", wire.Header{Limit: 64}, nil, ""},
		{"a limit without bound", wire.Header{Limit: 65}, nil, "limit of DATA: got 65, want at most 64"},
		{"a limit that goes back", wire.Header{Limit: 1<<32 - 1}, nil, "limit of DATA: got 4294967295, want 0 or more"},
		{"a lower limit", wire.Header{Kind: wire.Limit, Flags: wire.FlagLower, Limit: 1<<32 - 1}, nil, ""},
		{"another number", wire.Header{Seq: 1}, nil, "number of DATA: got 1, want 0: a frame was lost"},
		{"a reply to nothing", wire.Header{Kind: wire.Limit, Flags: wire.FlagLowered}, nil, "there was no such limit"},
		{"a reply", wire.Header{Kind: wire.Limit, Flags: wire.FlagLowered}, func(l *Link) { l.Window.Recv.Lower() },
			""},
		{"more than the window", wire.Header{Seq: 2}, func(l *Link) {
			l.Window.Recv.Came()
			l.Window.Recv.Came()
		}, "DATA: got frame 2, want a number below 2"},
		{"DATA after FIN", wire.Header{}, func(l *Link) { l.End.PeerFINCame(0) }, "DATA: got one after FIN, want none"},
		{"FIN after FIN", wire.Header{Kind: wire.FIN}, func(l *Link) { l.End.PeerFINCame(0) },
			"FIN: got one after FIN"},
		{"a FIN that adds something", wire.Header{Kind: wire.FIN, Aux: wire.FINClosed},
			func(l *Link) { l.End.PeerFINCame(0) }, ""},
		{"LIMIT after FIN", wire.Header{Kind: wire.Limit}, func(l *Link) { l.End.PeerFINCame(0) }, ""},
		{"too many frames about leases", wire.Header{Kind: wire.Revoke}, func(l *Link) {
			l.Control = &Control{Recv: credit.NewReceiver(0)}
		}, "REVOKE: got frame 0 about leases, want a number below 0"},
	} {
		l := New(&Shard{}, wire.Messages, Options{}, nil)
		if c.do != nil {
			c.do(l)
		}
		got := ""
		err := l.checkFrame(&c.h)
		if err != nil {
			got = err.Error()
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if p := (*wire.Error)(nil); err != nil && !errors.As(err, &p) {
			t.Errorf("%s: a %T", c.name, err)
		}
	}
}

// TestLiveness_Handshake has a handshake take longer than an idle connection may: it is not given up, and its PINGs do
// not begin before it is over.
func TestLiveness_Handshake(t *testing.T) {
	l := New(&Shard{}, wire.Messages, Options{}, nil)
	l.Alive.Every = 1
	for now := range uint32(20) {
		l.keep(now)
	}
	if l.End.Ending || l.Alive.Asking {
		t.Errorf("ending: %v; asking: %v", l.End.Ending, l.Alive.Asking)
	}
}
