package rsocket

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

func TestSockaddr(t *testing.T) {
	for in, want := range map[string]string{
		"10.8.0.1:7471":          "10.8.0.1:7471",
		"[::ffff:10.8.0.1]:1":    "10.8.0.1:1",
		"[fe80::1]:65535":        "[fe80::1]:65535",
		"[fe80::1%4000000000]:9": "[fe80::1%4000000000]:9",
	} {
		a, err := newSockaddr(netip.MustParseAddrPort(in))
		if err != nil {
			t.Fatal(err)
		}
		if got := a.AddrPort().String(); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
		if size := uint32(16); strings.Contains(want, "[") == (a.Len() == size) {
			t.Errorf("%s has the length %d", in, a.Len())
		}
	}
	var arg *ibv.ArgError
	if _, err := newSockaddr(netip.AddrPort{}); !errors.As(err, &arg) {
		t.Errorf("no address: %v", err)
	}
	if _, err := newSockaddr(netip.MustParseAddrPort("[fe80::1%nosuchif]:9")); !errors.As(err, &arg) {
		t.Errorf("no such zone: %v", err)
	}
	if got := (&sockaddr.Addr{}).AddrPort(); got.IsValid() {
		t.Errorf("an unknown family is %v", got)
	}
}

func TestErrors(t *testing.T) {
	err := error(&Error{Op: "rconnect", Object: "10.8.0.1:1", Errno: syscall.ECONNREFUSED})
	if !errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, ErrNotSupported) {
		t.Errorf("%v is something else", err)
	}
	if got, want := err.Error(), "rconnect 10.8.0.1:1: connection refused (no rsocket listens there)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(&Error{Op: "rsocket", Errno: syscall.ENOTSUP}, ErrNotSupported) {
		t.Error("ENOTSUP is not ErrNotSupported")
	}
	if !errors.Is(ErrClosed, net.ErrClosed) || !errors.Is(ErrClosed, ibv.ErrClosed) {
		t.Error("ErrClosed is not net's and ibv's")
	}
	var timeout interface{ Timeout() bool }
	if !errors.As(errReadAgain, &timeout) || !timeout.Timeout() || !errors.Is(errWriteAgain, syscall.EAGAIN) {
		t.Error("EAGAIN is no timeout")
	}
}

func TestStrings(t *testing.T) {
	for got, want := range map[string]string{
		DomainINET6.String(): "IPv6", Domain(3).String(): "Domain(3)",
		Datagram.String(): "datagram", Type(9).String(): "Type(9)",
		ShutBoth.String(): "both", How(7).String(): "How(7)",
		Events(0).String(): "none", (PollIn | PollHup | 0x400).String(): "in|hup|Events(0x400)",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestClosed(t *testing.T) {
	s := &Socket{fd: -1}
	s.life.Shut()
	addr := netip.MustParseAddrPort("127.0.0.1:1")
	b := make([]byte, 1)
	for name, f := range map[string]func() error{
		"Bind":         func() error { return s.Bind(addr) },
		"Connect":      func() error { return s.Connect(addr) },
		"Listen":       func() error { return s.Listen(1) },
		"Accept":       func() error { _, _, err := s.Accept(); return err },
		"Shutdown":     func() error { return s.Shutdown(ShutBoth) },
		"Recv":         func() error { _, err := s.Recv(b); return err },
		"Send":         func() error { _, err := s.Send(b); return err },
		"RecvFlags":    func() error { _, err := s.RecvFlags(b, MsgPeek); return err },
		"SendFlags":    func() error { _, err := s.SendFlags(b, MsgDontWait); return err },
		"RecvFrom":     func() error { _, _, err := s.RecvFrom(b, 0); return err },
		"SendTo":       func() error { _, err := s.SendTo(b, 0, addr); return err },
		"RecvMsg":      func() error { _, err := s.RecvMsg([][]byte{b}, 0); return err },
		"SendMsg":      func() error { _, err := s.SendMsg([][]byte{b}, 0); return err },
		"ReadV":        func() error { _, err := s.ReadV([][]byte{b}); return err },
		"WriteV":       func() error { _, err := s.WriteV([][]byte{b}); return err },
		"LocalAddr":    func() error { _, err := s.LocalAddr(); return err },
		"RemoteAddr":   func() error { _, err := s.RemoteAddr(); return err },
		"IntOption":    func() error { _, err := s.IntOption(LevelSocket, OptError); return err },
		"SetReuseAddr": func() error { return s.SetReuseAddr() },
		"SetNonblock":  func() error { return s.SetNonblock(false) },
		"ConnectError": func() error { return s.ConnectError() },
		"Map":          func() error { _, err := s.Map(b, ProtWrite, -1); return err },
		"WriteAt":      func() error { _, err := s.WriteAt(b, 0, 0); return err },
	} {
		if err := f(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v, want net.ErrClosed", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func TestServiceLimit(t *testing.T) {
	for version, want := range map[string]int32{"44.0": 3, "52.1": 3, "53.0": 0, "65.0": 0, "": 3} {
		if got := limitOf(version, false); got != want {
			t.Errorf("librdmacm %q: limit %d, want %d", version, got, want)
		}
	}
	if got := limitOf("", true); got != 0 {
		t.Errorf("librdmacm with functions of v60: limit %d", got)
	}
	v := &service{what: "connections", limit: 2}
	for i, want := range []bool{true, true, false} {
		if err := v.enter("44.0"); (err == nil) != want {
			t.Errorf("socket %d: %v", i, err)
		}
	}
	v.leave()
	if err := v.enter("44.0"); err != nil {
		t.Errorf("after one has left: %v", err)
	}
}

// TestIntBounds refuses what an int of C would cut, before C is called.
func TestIntBounds(t *testing.T) {
	s := &Socket{}
	_, cmd := s.Fcntl(1<<32+FGetFL, 0)
	_, arg := s.Fcntl(FSetFL, 1<<40)
	for what, err := range map[string]error{
		"backlog": s.Listen(1 << 32), "negative backlog": s.Listen(-1), "option": s.SetIntOption(LevelSocket,
			OptReuseAddr, 1<<32), "command": cmd, "argument": arg,
	} {
		var bad *ibv.ArgError
		if !errors.As(err, &bad) || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestEOF: a stream ends with 0 bytes, a datagram may have none.
func TestEOF(t *testing.T) {
	for _, c := range []struct {
		typ  Type
		n    int
		want int
		err  error
	}{{Stream, 0, 8, io.EOF}, {Stream, 0, 0, nil}, {Stream, 3, 8, nil}, {Datagram, 0, 8, nil}} {
		if n, err := (&Socket{typ: c.typ}).eof(c.n, c.want, nil); n != c.n || err != c.err {
			t.Errorf("%d of %d bytes of a %v: %d, %v", c.n, c.want, c.typ, n, err)
		}
	}
}

// TestSelectItems: a socket in several lists has the events of all.
func TestSelectItems(t *testing.T) {
	a, b := &Socket{}, &Socket{}
	got := items([3][]*Socket{{a, b}, {b}, {a}})
	if want := []Item{{Socket: a, Events: PollIn}, {Socket: b, Events: PollIn | PollOut}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
