package rdma

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// TestRXE_Fallback has peers with RDMA, without, and with one that does not answer.
func TestRXE_Fallback(t *testing.T) {
	r := testutil.NeedRXE(t)
	host := r.Host[0] // both reach it
	server, client := newEngines(t, &EngineOptions{Memory: 8 << 20})
	opt := from(r, client)
	opt.Fallback = true
	if r.Emulated {
		opt = &Options{Fallback: true} // the address is the host's own
	}

	t.Run("RDMA", func(t *testing.T) {
		so := &Options{Engine: server, Fallback: true}
		if r.Emulated {
			so.Engine = nil
		}
		l, err := ListenStream(timeout(t), net.JoinHostPort(host, "0"), so)
		ok(t, err)
		defer l.Close()
		o := *opt
		o.fallbackAfter = testutil.Patience
		a, err := DialStream(timeout(t), l.Addr().String(), &o)
		ok(t, err)
		defer a.Close()
		b, err := l.AcceptStream(timeout(t))
		ok(t, err)
		defer b.Close()
		if !strings.HasPrefix(a.Transport(), "rdma ") || !strings.HasPrefix(b.Transport(), "rdma ") {
			t.Errorf("transports %q and %q", a.Transport(), b.Transport())
		}
		exchange(t, a, b)
		plain, err := dialTCP(timeout(t), l.Addr().String(), o.LocalAddr)
		ok(t, err)
		defer plain.Close()
		c, err := l.Accept()
		ok(t, err)
		defer c.Close()
		exchange(t, plain, c)
	})
	t.Run("Refused", func(t *testing.T) { // the peer has no RDMA
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		ok(t, err)
		defer l.Close()
		o := *opt
		o.fallbackAfter = testutil.Patience
		a, err := DialStream(timeout(t), l.Addr().String(), &o)
		ok(t, err)
		defer a.Close()
		b, err := l.Accept()
		ok(t, err)
		defer b.Close()
		if !strings.Contains(a.Transport(), "rejected") {
			t.Errorf("transport %q, want that RDMA was rejected", a.Transport())
		}
		exchange(t, a, b)
	})
	t.Run("Silent", func(t *testing.T) { // the peer's RDMA does not answer
		cm, err := rdmacm.Listen(timeout(t), net.JoinHostPort(host, "0"), nil)
		ok(t, err)
		defer cm.Close()
		l, err := net.Listen("tcp", cm.Addr().String())
		ok(t, err)
		defer l.Close()
		o := *opt
		o.fallbackAfter = time.Millisecond
		a, err := DialStream(timeout(t), cm.Addr().String(), &o)
		ok(t, err)
		defer a.Close()
		b, err := l.Accept()
		ok(t, err)
		defer b.Close()
		if want := "tcp: no connection by RDMA within 1ms"; a.Transport() != want {
			t.Errorf("transport %q, want %q", a.Transport(), want)
		}
		exchange(t, a, b)
		if _, err := ListenStream(timeout(t), cm.Addr().String(), &Options{Fallback: true}); err == nil {
			t.Error("a port that RDMA has given to another program is taken for TCP alone")
		}
		testutil.Eventually(t, "the attempt by RDMA has ended", func() bool {
			return client.e.Shards[0].Members.Places.Load() == 0
		})
	})
}
