package rdma

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// learned returns the facts that programs learn from an error of package net.
func learned(err error) string {
	if err == nil || err == io.EOF {
		return fmt.Sprint(err)
	}
	var list []string
	ne, ok := err.(net.Error)
	add := func(is bool, what string) {
		if is {
			list = append(list, what)
		}
	}
	add(ok, "net.Error")
	add(ok && ne.Timeout(), "Timeout")
	add(os.IsTimeout(err), "IsTimeout")
	var op *net.OpError
	if errors.As(err, &op) {
		list = append(list, "Op "+op.Op, "Net "+op.Net)
		for _, a := range []net.Addr{op.Source, op.Addr} {
			add(a != nil && a.Network() != op.Net, fmt.Sprintf("an address of %v", a))
		}
	}
	for _, s := range []error{net.ErrClosed, os.ErrDeadlineExceeded, context.Canceled, syscall.EPIPE,
		syscall.ECONNREFUSED, syscall.EADDRINUSE, io.ErrShortWrite, errTheirs} {
		add(errors.Is(err, s), s.Error())
	}
	add(!errors.Is(err, net.ErrClosed) && strings.Contains(err.Error(), net.ErrClosed.Error()), "text")
	return strings.Join(list, ", ")
}

var errTheirs = errors.New("theirs")

// netKit makes connections of TCP, or of this package.
type netKit struct {
	listen func(addr string) (net.Listener, error)
	dial   func(ctx context.Context, addr string) (net.Conn, error)
}

func netKits(server, client *Engine, r testutil.RXE) (kits [2]netKit) {
	kits[0] = netKit{func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) },
		func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}}
	kits[1] = netKit{func(addr string) (net.Listener, error) {
		l, err := ListenStream(context.Background(), addr, &Options{Engine: server})
		if err != nil {
			return nil, err
		}
		return l, nil
	}, func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := DialStream(ctx, addr, from(r, client))
		if err != nil {
			return nil, err
		}
		return c, nil
	}}
	return kits
}

// TestRXE_NetErrors makes the same mistakes with TCP and with streams: programs learn the same from the errors.
func TestRXE_NetErrors(t *testing.T) {
	needLogic(t)
	r := testutil.NeedRXE(t)
	server, client := smallEngines(t)
	kits := netKits(server, client, r)
	past := time.Unix(1, 0)
	p := make([]byte, 10)
	second := func(_ int, err error) error { return err }
	long := func(_ int64, err error) error { return err }
	pair := func(f func(a, b half) error) func(t *testing.T, k netKit) error {
		return func(t *testing.T, k netKit) error {
			l, err := k.listen(net.JoinHostPort(r.IP[0], "0"))
			ok(t, err)
			defer l.Close()
			b, err := k.dial(timeout(t), l.Addr().String())
			ok(t, err)
			defer b.Close()
			a, err := l.Accept()
			ok(t, err)
			defer a.Close()
			return f(a.(half), b.(half))
		}
	}
	closed := func(f func(c half) error) func(t *testing.T, k netKit) error {
		return pair(func(a, b half) error {
			ok(t, a.Close())
			return f(a)
		})
	}
	listener := func(f func(l net.Listener) error) func(t *testing.T, k netKit) error {
		return func(t *testing.T, k netKit) error {
			l, err := k.listen(net.JoinHostPort(r.IP[0], "0"))
			ok(t, err)
			defer l.Close()
			return f(l)
		}
	}
	dial := func(ctx context.Context, addr string) func(t *testing.T, k netKit) error {
		return func(t *testing.T, k netKit) error {
			c, err := k.dial(ctx, addr)
			if err == nil {
				_ = c.Close()
			}
			return err
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), past)
	defer cancel()
	nobody := net.JoinHostPort(r.IP[0], "1")
	for _, row := range []struct {
		name string
		f    func(t *testing.T, k netKit) error
	}{
		{"Dial, refused", dial(timeout(t), nobody)},
		{"Dial, the context was cancelled", dial(ended, nobody)},
		{"Dial, the context's deadline has passed", dial(late, nobody)},
		{"Dial, no port", dial(timeout(t), r.IP[0])},
		{"Listen, the port is taken", listener(func(l net.Listener) error {
			var err error
			for i, k := range kits {
				if _, is := l.(*StreamListener); is == (i == 1) {
					_, err = k.listen(l.Addr().String())
				}
			}
			return err
		})},
		{"Accept while Close", listener(func(l net.Listener) error {
			time.AfterFunc(time.Millisecond, func() { _ = l.Close() })
			_, err := l.Accept()
			return err
		})},
		{"Accept after Close", listener(func(l net.Listener) error {
			ok(t, l.Close())
			_, err := l.Accept()
			return err
		})},
		{"Read, the deadline has passed", pair(func(a, b half) error {
			ok(t, a.SetReadDeadline(past))
			return second(a.Read(p))
		})},
		{"Read, the deadline passes", pair(func(a, b half) error {
			ok(t, a.SetReadDeadline(time.Now().Add(time.Millisecond)))
			return second(a.Read(p))
		})},
		{"Read after the deadline was removed", pair(func(a, b half) error {
			ok(t, a.SetDeadline(past))
			_ = second(a.Read(p))
			ok(t, a.SetDeadline(time.Time{}))
			_, err := b.Write(p)
			ok(t, err)
			return second(a.Read(p))
		})},
		{"Read at the end", pair(func(a, b half) error {
			ok(t, b.Close())
			return second(a.Read(p))
		})},
		{"Write, the deadline has passed", pair(func(a, b half) error {
			ok(t, a.SetWriteDeadline(past))
			return second(a.Write(p))
		})},
		{"Write, the deadline passes", pair(func(a, b half) error {
			ok(t, a.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
			err := second(a.Write(make([]byte, 64<<20)))
			_ = b.Close() // else a's Close takes the Linger that all rows share
			return err
		})},
		{"Write after CloseWrite", pair(func(a, b half) error {
			ok(t, a.CloseWrite())
			return second(a.Write(p))
		})},
		{"Write of nothing", pair(func(a, b half) error { return second(a.Write(nil)) })},
		{"Read of nothing", pair(func(a, b half) error { return second(a.Read(nil)) })},
		{"ReadFrom, the deadline has passed", pair(func(a, b half) error {
			ok(t, a.SetDeadline(past))
			return long(io.Copy(a, readerFunc(func(p []byte) (int, error) { return len(p), nil })))
		})},
		{"ReadFrom, the Reader fails", pair(func(a, b half) error {
			return long(io.Copy(a, readerFunc(func(p []byte) (int, error) { return 0, errTheirs })))
		})},
		{"WriteTo, the deadline has passed", pair(func(a, b half) error {
			ok(t, a.SetDeadline(past))
			return long(io.Copy(io.Discard, a))
		})},
		{"WriteTo, the Writer fails", pair(func(a, b half) error {
			_, err := b.Write(p)
			ok(t, err)
			return long(io.Copy(writerFunc(func([]byte) (int, error) { return 0, errTheirs }), a))
		})},
		{"WriteTo to the end", pair(func(a, b half) error {
			ok(t, b.Close())
			return long(io.Copy(io.Discard, a))
		})},
		{"Read after Close", closed(func(c half) error { return second(c.Read(p)) })},
		{"Read after Close, the deadline has passed", pair(func(a, b half) error {
			ok(t, a.SetDeadline(past))
			ok(t, a.Close())
			return second(a.Read(p))
		})},
		{"Read of nothing after Close", closed(func(c half) error { return second(c.Read(nil)) })},
		{"Write after Close", closed(func(c half) error { return second(c.Write(p)) })},
		{"Write of nothing after Close", closed(func(c half) error { return second(c.Write(nil)) })},
		{"ReadFrom after Close", closed(func(c half) error { return long(io.Copy(c, strings.NewReader("hello"))) })},
		{"WriteTo after Close", closed(func(c half) error { return long(io.Copy(io.Discard, c)) })},
		{"CloseWrite after Close", closed(func(c half) error { return c.CloseWrite() })},
		{"CloseRead after Close", closed(func(c half) error { return c.CloseRead() })},
		{"SetDeadline after Close", closed(func(c half) error { return c.SetDeadline(past) })},
		{"SetReadDeadline after Close", closed(func(c half) error { return c.SetReadDeadline(past) })},
		{"SetWriteDeadline after Close", closed(func(c half) error { return c.SetWriteDeadline(past) })},
	} {
		t.Run(row.name, func(t *testing.T) {
			tcp, ours := row.f(t, kits[0]), row.f(t, kits[1])
			t.Logf("%v; TCP: %v", ours, tcp)
			if got, want := learned(ours), learned(tcp); got != want {
				t.Errorf("%v: %s\nTCP: %v: %s", ours, got, tcp, want)
			}
		})
	}
}

// TestRXE_CloseTwice closes twice, which is no mistake: package net has an error for it.
func TestRXE_CloseTwice(t *testing.T) {
	r := testutil.NeedRXE(t)
	server, client := smallEngines(t)
	k := netKits(server, client, r)[1]
	l, err := k.listen(net.JoinHostPort(r.IP[0], "0"))
	ok(t, err)
	c, err := k.dial(timeout(t), l.Addr().String())
	ok(t, err)
	a, err := l.Accept()
	ok(t, err)
	for range 2 {
		ok(t, c.Close())
		ok(t, a.Close())
		ok(t, l.Close())
	}
}

// TestRXE_PacketNetErrors makes the same mistakes with UDP and with datagrams.
func TestRXE_PacketNetErrors(t *testing.T) {
	needLogic(t)
	r := testutil.NeedRXE(t)
	server, client := smallEngines(t)
	type packetConn interface {
		net.PacketConn
		net.Conn
	}
	kits := [2]struct {
		listen func(addr string) (net.PacketConn, error)
		dial   func(ctx context.Context, addr string) (net.Conn, error)
	}{
		{func(addr string) (net.PacketConn, error) { return net.ListenPacket("udp", addr) },
			func(ctx context.Context, addr string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "udp", addr)
			}},
		{func(addr string) (net.PacketConn, error) {
			c, err := ListenPacket(context.Background(), addr, &Options{Engine: server})
			if err != nil {
				return nil, err
			}
			return c, nil
		}, func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := DialPacket(ctx, addr, from(r, client))
			if err != nil {
				return nil, err
			}
			return c, nil
		}},
	}
	past := time.Unix(1, 0)
	p := make([]byte, 10)
	read := func(c net.PacketConn) error {
		_, _, err := c.ReadFrom(p)
		return err
	}
	second := func(_ int, err error) error { return err }
	for _, row := range []struct {
		name string
		f    func(a, d packetConn) error // d was dialed to a
	}{
		{"ReadFrom, the deadline has passed", func(a, _ packetConn) error {
			ok(t, a.SetReadDeadline(past))
			return read(a)
		}},
		{"ReadFrom, the deadline passes", func(a, _ packetConn) error {
			ok(t, a.SetDeadline(time.Now().Add(time.Millisecond)))
			return read(a)
		}},
		{"WriteTo, the deadline has passed", func(a, d packetConn) error {
			ok(t, a.SetWriteDeadline(past))
			return second(a.WriteTo(p, d.LocalAddr()))
		}},
		{"WriteTo of a dialed socket", func(a, d packetConn) error { return second(d.WriteTo(p, a.LocalAddr())) }},
		{"Write of a listening socket", func(a, _ packetConn) error {
			if _, err := a.Write(p); err == nil {
				t.Error("Write has no error")
			}
			return second(a.WriteTo(p, nil))
		}},
		{"Write, the deadline has passed", func(_, d packetConn) error {
			ok(t, d.SetDeadline(past))
			return second(d.Write(p))
		}},
		{"Read, the deadline has passed", func(_, d packetConn) error {
			ok(t, d.SetDeadline(past))
			return second(d.Read(p))
		}},
		{"ReadFrom after Close", func(a, _ packetConn) error {
			ok(t, a.Close())
			return read(a)
		}},
		{"WriteTo after Close", func(a, d packetConn) error {
			ok(t, a.Close())
			return second(a.WriteTo(p, d.LocalAddr()))
		}},
		{"Read after Close", func(_, d packetConn) error {
			ok(t, d.Close())
			return second(d.Read(p))
		}},
		{"Write after Close", func(_, d packetConn) error {
			ok(t, d.Close())
			return second(d.Write(p))
		}},
		{"SetDeadline after Close", func(a, _ packetConn) error {
			ok(t, a.Close())
			return a.SetDeadline(past)
		}},
		{"ListenPacket, the port is taken", func(a, _ packetConn) error {
			i := 0
			if _, is := a.(*PacketConn); is {
				i = 1
			}
			_, err := kits[i].listen(a.LocalAddr().String())
			return err
		}},
		{"DialPacket, no port", func(a, _ packetConn) error {
			i := 0
			if _, is := a.(*PacketConn); is {
				i = 1
			}
			_, err := kits[i].dial(timeout(t), r.IP[0])
			return err
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var errs [2]error
			for i, k := range kits {
				a, err := k.listen(net.JoinHostPort(r.IP[0], "0"))
				ok(t, err)
				defer a.Close()
				d, err := k.dial(timeout(t), a.LocalAddr().String())
				ok(t, err)
				defer d.Close()
				errs[i] = row.f(a.(packetConn), d.(packetConn))
			}
			t.Logf("%v; UDP: %v", errs[1], errs[0])
			if got, want := learned(errs[1]), learned(errs[0]); got != want {
				t.Errorf("%v: %s\nUDP: %v: %s", errs[1], got, errs[0], want)
			}
		})
	}
}
