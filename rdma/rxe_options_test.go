package rdma

import (
	"context"
	"io"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// callEnds are what a call with Options has made: its link and that of the peer, if these are RDMA's.
type callEnds struct {
	mine, peer *link.Link
	closers    []io.Closer
}

func (e *callEnds) add(c ...io.Closer) { e.closers = append(e.closers, c...) }

func (e *callEnds) close(t *testing.T) {
	t.Helper()
	for _, c := range slices.Backward(e.closers) {
		ok(t, c.Close())
	}
}

// make makes a call with o, and what it needs of the peer with p.
func (e *callEnds) make(t *testing.T, c call, host string, o, p *Options) error {
	t.Helper()
	at := net.JoinHostPort(host, "0")
	switch c {
	case callDial, callListen:
		lo, do := p, o
		if c == callListen {
			lo, do = o, p
		}
		l, err := Listen(timeout(t), at, lo)
		if err != nil {
			return err
		}
		e.add(l)
		a, err := Dial(timeout(t), l.Addr().String(), do)
		if err != nil {
			return err
		}
		e.add(a)
		b, err := l.Accept(timeout(t))
		if err != nil {
			return err
		}
		e.add(b)
		if e.mine, e.peer = a.l, b.l; c == callListen {
			e.mine, e.peer = b.l, a.l
		}
		echo(t, a, b)
	case callDialStream, callListenStream:
		lo, do := p, o
		if c == callListenStream {
			lo, do = o, p
		}
		l, err := ListenStream(timeout(t), at, lo)
		if err != nil {
			return err
		}
		e.add(l)
		a, err := DialStream(timeout(t), l.Addr().String(), do)
		if err != nil {
			return err
		}
		e.add(a)
		b, err := l.AcceptStream(timeout(t))
		if err != nil {
			return err
		}
		e.add(b)
		if e.mine, e.peer = a.l, b.l; c == callListenStream {
			e.mine, e.peer = b.l, a.l
		}
		exchange(t, a, b)
	case callDialPacket, callListenPacket:
		lo, do := p, o
		if c == callListenPacket {
			lo, do = o, p
		}
		l, err := ListenPacket(timeout(t), at, lo)
		if err != nil {
			return err
		}
		e.add(l)
		a, err := DialPacket(timeout(t), l.LocalAddr().String(), do)
		if err != nil {
			return err
		}
		e.add(a)
	}
	return nil
}

// TestRXE_OptionsOfCalls makes every call with every field of Options: the field is refused, or the call works and the
// connection has it.
func TestRXE_OptionsOfCalls(t *testing.T) {
	needLogic(t)
	r := testutil.NeedRXE(t)
	server, client := newEngines(t, &EngineOptions{Memory: 32 << 20})
	local := netip.MustParseAddr(r.IP[1])
	var asked atomic.Int32
	shows := map[string]func(e *callEnds) bool{
		"Engine": func(e *callEnds) bool {
			return e.mine.Shard.Engine.Owner == server || e.mine.Shard.Engine.Owner == client
		},
		"MaxMessage": func(e *callEnds) bool { return e.mine.MaxMessage == optionSamples["MaxMessage"] },
		"KeepAlive": func(e *callEnds) bool {
			return time.Duration(e.mine.Alive.Every)*time.Second == optionSamples["KeepAlive"]
		},
		"Leases":      func(e *callEnds) bool { return e.mine.Control != nil },
		"Linger":      func(e *callEnds) bool { return e.mine.Linger.Most == optionSamples["Linger"] },
		"PrivateData": func(e *callEnds) bool { return string(e.peer.Peer.App[:4]) == "mine" },
		"LocalAddr":   func(e *callEnds) bool { return e.mine.Local.Addr() == local },
		"Authorize":   func(*callEnds) bool { return asked.Swap(0) > 0 },
		"Logger":      func(e *callEnds) bool { return e.mine.Log == optionSamples["Logger"] },
	}
	for _, u := range new(Options).uses() {
		for _, c := range allCalls[:len(allCalls)-1] { // TestOptionsOfCalls has Pipe
			value := optionSamples[u.field]
			applies := slices.Contains(u.of, c)
			p := new(Options)
			switch u.field {
			case "Engine":
				value = server // the address is the host's own
				if c == callDial || c == callDialStream || c == callDialPacket {
					p.Engine = server
				}
			case "LocalAddr":
				value = netip.AddrPortFrom(local, 0)
			case "Leases":
				p.Leases = &LeaseOptions{}
			case "Authorize":
				value = func(context.Context, ConnRequest) error { asked.Add(1); return nil }
			}
			if !applies {
				p = new(Options)
			}
			e := new(callEnds)
			err := e.make(t, c, r.IP[0], withOption(t, u.field, value), p)
			refusal(t, c, u.field, err, !applies)
			if applies && err != nil {
				t.Errorf("%s with %s: %v", c, u.field, err)
			}
			has, links := shows[u.field], e.mine != nil || u.field == "Authorize"
			if applies && err == nil && has != nil && links && !has(e) {
				t.Errorf("the connection of %s does not have its %s", c, u.field)
			}
			e.close(t)
		}
	}
	if n := reflect.TypeFor[Options]().NumField() - 1; len(optionSamples) != n {
		t.Errorf("%d samples of %d fields", len(optionSamples), n)
	}
	ok(t, CloseIdle())
}
