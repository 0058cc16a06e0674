package examples

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma"
)

// TestRXE_PacketStock has package rdma's datagrams answer the stock udaddy, and talk to the stock mckey.
func TestRXE_PacketStock(t *testing.T) {
	r := testutil.NeedRXE(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const count = 10 // of both programs
	receive := func(t *testing.T, c *rdma.PacketConn) (from net.Addr) {
		t.Helper()
		p := make([]byte, c.MaxDatagram())
		for i := range count {
			n, a, err := c.ReadFrom(p)
			if err != nil || n != 100 {
				t.Fatalf("datagram %d: %d bytes, %v", i, n, err)
			}
			from = a
		}
		return from
	}
	open := func(t *testing.T, port string) *rdma.PacketConn {
		t.Helper()
		c, err := rdma.ListenPacket(ctx, net.JoinHostPort(r.IP[0], port), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(c.Close(), rdma.CloseIdle()); err != nil {
				t.Error(err)
			}
		})
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	send := func(t *testing.T, c *rdma.PacketConn, to net.Addr) {
		t.Helper()
		for range count {
			if _, err := c.WriteTo(make([]byte, 100), to); err != nil {
				t.Fatal(err)
			}
		}
	}

	t.Run("udaddy", func(t *testing.T) {
		c := open(t, "7174") // the program's own port
		p := launch(t, testutil.NeedStock(t, "udaddy"), "-s", r.IP[0], "-b", r.IP[1])
		send(t, c, receive(t, c))
		p.succeeds()
	})
	if !testutil.Full() {
		return // mckey sleeps for some seconds
	}
	group := netip.MustParseAddr("239.7.1.9")
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(group, 0))
	t.Run("mckey sends", func(t *testing.T) {
		c := open(t, "0")
		if err := c.Join(ctx, group); err != nil {
			t.Fatal(err)
		}
		p := launch(t, testutil.NeedStock(t, "mckey"), "-s", "-m", group.String(), "-b", r.IP[0])
		receive(t, c)
		p.succeeds()
	})
	t.Run("mckey receives", func(t *testing.T) {
		c := open(t, "0")
		if err := c.Join(ctx, group); err != nil {
			t.Fatal(err)
		}
		p := launch(t, testutil.NeedStock(t, "mckey"), "-m", group.String(), "-b", r.IP[0])
		for p.running() { // it does not say when it has joined
			send(t, c, to)
			time.Sleep(10 * time.Millisecond)
		}
		p.succeeds()
	})
}

// running reports whether the program has not ended.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}
