package rdma

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// attacker is a peer that keeps to nothing: a connection of package rdmacm, on which it posts what it likes.
type attacker struct {
	c  *rdmacm.Conn
	mr *ibv.MR
	n  int

	victim *Engine
}

// attack is an attacker that has receives for what the victim sends.
func attack(t *testing.T, to string, h []byte) (*attacker, error) {
	t.Helper()
	a, err := attackDeaf(t, to, h)
	for i := 0; err == nil && i < min(100, a.c.QP().Cap().MaxRecvWR); i++ {
		_, err := a.c.QP().PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{a.mr.SGE(32<<10, 4096)}}})
		ok(t, err)
	}
	return a, err
}

// attackDeaf is attack without receives.
func attackDeaf(t *testing.T, to string, h []byte) (*attacker, error) {
	t.Helper()
	r := testutil.NeedRXE(t)
	c, err := rdmacm.Dial(timeout(t), to, &rdmacm.Options{PrivateData: h,
		LocalAddr: netip.AddrPortFrom(netip.MustParseAddr(r.IP[1]), 0)})
	if err != nil {
		return nil, err
	}
	a := &attacker{c: c}
	a.mr, err = c.PD().AllocMR(64<<10, ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead, nil)
	ok(t, err)
	c.OnClose(a.mr.Close)
	t.Cleanup(func() { ok(t, c.Close()) })
	return a, nil
}

// post posts a frame whose header is h, as it is, with n bytes after it. Errors mean that the victim has ended the
// connection.
func (a *attacker) post(h wire.Header, n int) error {
	h.Put(a.mr.Bytes())
	return a.send(ibv.SendWR{Opcode: ibv.OpSend, SGEs: []ibv.SGE{a.mr.SGE(0, wire.HeaderLen+n)}})
}

// send posts one signaled work request and waits for it.
func (a *attacker) send(wr ibv.SendWR) error {
	a.n++
	wr.ID, wr.Flags = uint64(a.n)|1<<40, ibv.Signaled
	if _, err := a.c.QP().PostSend([]ibv.SendWR{wr}); err != nil {
		return err
	}
	for {
		wcs := make([]ibv.WC, 1)
		if _, err := a.c.CQ().Wait(context.Background(), wcs); err != nil {
			return err
		}
		if wcs[0].ID == wr.ID {
			return wcs[0].Err()
		}
	}
}

// goodHello is that of a peer which takes no frames of several messages.
func goodHello(kind wire.ConnKind) []byte {
	h := wire.Hello{Min: wire.MinVersion, Max: wire.MaxVersion, Kind: kind, Block: link.DefaultBlock,
		Limit:      link.StartWindow,
		MaxMessage: defaultMaxMessage}
	return h.Encode()
}

// TestRXE_HostileFrames sends what no peer with this package sends. The victim's connection ends with an error that
// names it, another connection of the same engine works on, and no block is lost.
func TestRXE_HostileFrames(t *testing.T) {
	data := func(flags uint8, length, aux uint32) wire.Header {
		return wire.Header{Kind: wire.Data, Flags: flags, Limit: link.StartWindow, Length: length, Aux: aux}
	}
	limit := func(flags uint8, to uint32) wire.Header {
		return wire.Header{Kind: wire.Limit, Flags: flags, Limit: to}
	}
	several := func(n int, h wire.Header, size int) func(*attacker) {
		return func(a *attacker) {
			for range n {
				if a.post(h, size) != nil {
					return
				}
				if h.Kind == wire.Data {
					h.Seq++
				}
			}
		}
	}
	packed := func(p string) func(*attacker) {
		return func(a *attacker) {
			copy(a.mr.Bytes()[wire.HeaderLen:], p)
			_ = a.post(data(wire.FlagPacked, uint32(len(p)), 0), len(p))
		}
	}
	testutil.NeedLogic(t)
	server, client := newEngines(t, &EngineOptions{Memory: 16 << 20})
	for _, c := range []struct {
		name string
		do   func(*attacker)
		want string // in the victim's error
	}{
		{"more frames than the limit", several(40, data(0, 8, 0), 8), "DATA: got frame"},
		{"a length beyond the frame", several(1, data(0, 9, 0), 8), "length of DATA: got 9, want 8"},
		{"a length of 4 GiB", several(1, data(0, 1<<32-1, 0), 8), "length of DATA"},
		{"less than a header", func(a *attacker) {
			_ = a.send(ibv.SendWR{Opcode: ibv.OpSend, SGEs: []ibv.SGE{a.mr.SGE(0, 5)}})
		}, "frame: got 5 bytes"},
		{"nothing at all", func(a *attacker) { _ = a.send(ibv.SendWR{Opcode: ibv.OpSend}) }, "frame: got 0 bytes"},
		{"an unknown kind", several(1, wire.Header{Kind: 99, Limit: link.StartWindow}, 0), "frame kind 99"},
		{"an unknown flag", several(1, data(0x80, 0, 0), 0), "flags of DATA: got 0x80"},
		{"another number", several(1, wire.Header{Seq: 7, Limit: link.StartWindow}, 0), "number of DATA: got 7"},
		{"FIN twice", several(2, wire.Header{Kind: wire.FIN, Limit: link.StartWindow}, 0), "FIN: got one after FIN"},
		{"DATA after FIN", func(a *attacker) {
			if a.post(wire.Header{Kind: wire.FIN, Limit: link.StartWindow}, 0) == nil {
				_ = a.post(data(0, 0, 0), 0)
			}
		}, "DATA: got one after FIN"},
		{"a limit that goes back", several(1, limit(0, link.StartWindow-1), 0), "limit of LIMIT"},
		{"a limit without bound", several(1, limit(0, 1<<30), 0), "limit of LIMIT"},
		{"a lower limit that is too low", several(1, limit(wire.FlagLower, 1<<32-100), 0), "limit of LIMIT"},
		{"an answer to no lower limit", several(1, limit(wire.FlagLowered, link.StartWindow), 0),
			"there was no such limit"},
		{"a lower limit in DATA", several(1, data(wire.FlagLower, 0, 0), 0), "flags of DATA"},
		{"a flood of lower limits", several(3000, limit(wire.FlagLower, 1), 0), "none"},
		{"a message that is announced too long", several(1, data(wire.FlagMore, 8, 1<<31), 8), "at most"},
		{"a message longer than announced", several(2, data(wire.FlagMore, 8, 9), 8), "16 bytes of a message"},
		{"MORE without an end", several(2, data(wire.FlagMore, 0, 99), 0), "0 bytes of a message"},
		{"a message shorter than announced", func(a *attacker) {
			if a.post(data(wire.FlagMore, 8, 99), 8) == nil {
				h := data(0, 8, 0)
				h.Seq = 1
				_ = a.post(h, 8)
			}
		}, "a message of 16 bytes"},
		{"FIN within a message", func(a *attacker) {
			if a.post(data(wire.FlagMore, 8, 99), 8) == nil {
				_ = a.post(wire.Header{Kind: wire.FIN, Limit: link.StartWindow, Seq: 1}, 0)
			}
		}, "one within a message"},
		{"a record longer than its frame", packed("\x09\x00\x00\x00\x00\x00\x00\x00too short"), "a record of 24 bytes"},
		{"a record of 2 GiB", packed("\xff\xff\xff\x7f\x00\x00\x00\x00"), "a message of 2147483647 bytes"},
		{"half a record", packed("\x00\x00\x00\x00\x00\x00\x00\x00half"), "4 bytes of a record"},
		{"no record", packed(""), "0 bytes of a record"},
		{"messages within a message", func(a *attacker) {
			if a.post(data(wire.FlagMore, 8, 99), 8) == nil {
				h := data(wire.FlagPacked, 8, 0)
				h.Seq = 1
				_ = a.post(h, 8)
			}
		}, "several messages within a message"},
		{"records and MORE", several(1, data(wire.FlagPacked|wire.FlagMore, 8, 8), 8), "PACKED in DATA only"},
		{"records in LIMIT", several(1, limit(wire.FlagPacked, link.StartWindow), 0), "PACKED in DATA only"},
		{"more than a block", several(1, data(0, 40<<10, 0), 40<<10), ""},
		{"RESET", several(1, wire.Header{Kind: wire.Reset, Limit: link.StartWindow, Aux: 5}, 0), "reason 5"},
		{"a write to a block, with its address and key", func(a *attacker) {
			mr := a.victim.e.Shards[0].Blocks.Slab().(*ibv.MR)
			_ = a.send(ibv.SendWR{Opcode: ibv.OpWrite, SGEs: []ibv.SGE{a.mr.SGE(0, 8)},
				Remote: ibv.RemoteAddr{Addr: mr.Addr(), RKey: mr.RKey()}})
		}, ""},
		{"a flood of LIMITs", several(3000, limit(0, link.StartWindow), 0), "none"},
		{"a flood of PINGs", several(3000, wire.Header{Kind: wire.Ping, Flags: wire.FlagIgnore,
			Limit: link.StartWindow}, 0),
			"none"},
		{"a flood of kinds to be ignored", several(3000, wire.Header{Kind: 77, Flags: wire.FlagIgnore,
			Limit: 1 << 30}, 0), "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := Listen(timeout(t), testutil.NeedRXE(t).IP[0]+":0", &Options{Engine: server})
			ok(t, err)
			defer l.Close()
			friend, err := Dial(timeout(t), l.Addr().String(), from(testutil.NeedRXE(t), client))
			ok(t, err)
			defer friend.Close()
			honest, err := l.Accept(timeout(t))
			ok(t, err)
			defer honest.Close()
			a, err := attack(t, l.Addr().String(), goodHello(wire.Messages))
			ok(t, err)
			a.victim = server
			victim, err := l.Accept(timeout(t))
			ok(t, err)
			defer victim.Close()
			if c.want == "none" { // it bothers nobody, and the connection goes on
				c.do(a)
				echo(t, friend, honest)
				if err := victim.Err(); err != nil {
					t.Errorf("the victim's connection has ended: %v", err)
				}
				return
			}
			sent := make(chan struct{})
			go func() {
				c.do(a)
				close(sent)
			}()
			if c.want == "DATA: got frame" {
				<-sent // a victim that reads as fast as it sends grants it more
			}
			for err = nil; err == nil; {
				var m *Message
				if m, err = victim.Recv(timeout(t)); err == nil {
					m.Release()
				} else if err == io.EOF { // the FIN of an attacker who goes on
					<-victim.Done()
					err = victim.Err()
				}
			}
			echo(t, friend, honest)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the victim's error: %v, want one with %q", err, c.want)
			}
		})
	}
}

// echo sends messages both ways.
func echo(t *testing.T, a, b *Conn) {
	t.Helper()
	for i := range 20 {
		for _, way := range [][2]*Conn{{a, b}, {b, a}} {
			ok(t, way[0].Send(timeout(t), make([]byte, i*1000)))
			m, err := way[1].Recv(timeout(t))
			ok(t, err)
			if m.Len() != i*1000 {
				t.Errorf("%d bytes, want %d", m.Len(), i*1000)
			}
			m.Release()
		}
	}
}

// TestRXE_HostileHello asks for a connection in ways that are refused, each with its reason.
func TestRXE_HostileHello(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, nil)
	l, err := Listen(timeout(t), testutil.NeedRXE(t).IP[0]+":0", &Options{Engine: server})
	ok(t, err)
	defer l.Close()
	change := func(at int, v byte) []byte {
		h := goodHello(wire.Messages)
		h[at] = v
		return h
	}
	for name, h := range map[string][]byte{
		"no private data": nil, "other private data": []byte("GET / HTTP/1.1"), "a later version": change(4, 9),
		"a stream": goodHello(wire.Stream), "blocks of 0 bytes": change(9, 0), "a block of 2 GiB": change(11, 0x80),
		"no first frame": change(12, 0), "a first limit of 16 million": change(14, 0xff),
	} {
		a, err := attack(t, l.Addr().String(), h)
		if a != nil || !errors.Is(err, rdmacm.ErrRejected) {
			t.Errorf("%s: %v, want a reject", name, err)
		}
	}
	_, err = DialStream(timeout(t), l.Addr().String(), from(testutil.NeedRXE(t), client))
	var p *ProtocolError
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "ListenStream") {
		t.Errorf("a stream to a listener for messages: %v", err)
	}
}

// TestRXE_HostileClaims has a peer claim in its hello what this side does not have. Flags permit nothing, and its
// longest message limits this side alone.
func TestRXE_HostileClaims(t *testing.T) {
	needLogic(t)
	server, _ := newEngines(t, nil)
	l, err := Listen(timeout(t), testutil.NeedRXE(t).IP[0]+":0", &Options{Engine: server})
	ok(t, err)
	defer l.Close()
	hello := func(flags uint8, longest uint32) []byte {
		h := wire.Hello{Min: wire.MinVersion, Max: wire.MaxVersion, Kind: wire.Messages, Flags: flags,
			Block: link.DefaultBlock, Limit: link.StartWindow, MaxMessage: longest}
		return h.Encode()
	}
	accept := func(h []byte) (*attacker, *Conn) {
		a, err := attack(t, l.Addr().String(), h)
		ok(t, err)
		victim, err := l.Accept(timeout(t))
		ok(t, err)
		return a, victim
	}
	a, victim := accept(hello(0xff, 1<<32-1))
	var u *ibv.UnsupportedError
	if _, err := victim.Lend(timeout(t), buffer(t, server, 4096), MayRead, 0); !errors.As(err, &u) {
		t.Errorf("a side without Options.Leases lends: %v", err)
	}
	f := wire.LendFrame{Addr: 4096, Length: 64, RKey: 5, Milliseconds: 60_000, Access: uint8(MayRead)}
	_ = a.about(f.Encode(0))
	<-victim.Done()
	if err := victim.Err(); !isProtocol(err) || !strings.Contains(err.Error(), "LEND") {
		t.Errorf("a frame about leases without leases: %v", err)
	}
	ok(t, victim.CloseNow())

	_, victim = accept(hello(0, 0))
	if err := victim.Send(timeout(t), []byte{1}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("to a peer that takes no byte: %v", err)
	}
	ok(t, victim.Send(timeout(t), nil))
	ok(t, victim.CloseNow())
}
