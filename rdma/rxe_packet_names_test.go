package rdma

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// claimant is a program that lies about its port, in requests and in datagrams.
type claimant struct {
	*PacketConn
	t *testing.T
}

func newClaimant(t *testing.T, host string, e *Engine) claimant {
	t.Helper()
	c, err := ListenPacket(timeout(t), net.JoinHostPort(host, "0"), &Options{Engine: e})
	ok(t, err)
	t.Cleanup(func() { ok(t, c.Close()) })
	return claimant{c, t}
}

// sends sends a datagram as if from another port. Its request before that claims the port as well.
func (c claimant) sends(text string, to net.Addr, as netip.AddrPort) {
	c.t.Helper()
	was := c.c.At.Local
	c.c.At.Local = as
	_, err := c.WriteTo([]byte(text), to)
	c.c.At.Local = was
	ok(c.t, err)
}

// requests asks for a queue pair, with private data.
func (c claimant) requests(to netip.AddrPort, private []byte) {
	c.t.Helper()
	ch, err := rdmacm.NewEventChannel()
	ok(c.t, err)
	id, err := ch.CreateID(rdmacm.PortSpaceUDP)
	ok(c.t, err)
	wait := func(want rdmacm.EventType) {
		c.t.Helper()
		ev, err := ch.Event(timeout(c.t))
		ok(c.t, err)
		if ev.Type != want {
			c.t.Fatalf("the event %v, want %v", ev, want)
		}
	}
	ok(c.t, id.ResolveAddr(netip.AddrPortFrom(c.c.At.Local.Addr(), 0), to, testutil.Patience))
	wait(rdmacm.EventAddrResolved)
	ok(c.t, id.ResolveRoute(testutil.Patience))
	wait(rdmacm.EventRouteResolved)
	ok(c.t, id.Connect(&rdmacm.ConnParam{QPN: c.c.QP.Num(), PrivateData: private}))
	wait(rdmacm.EventEstablished)
	ok(c.t, id.Close())
	ok(c.t, ch.Close())
}

// replies has a port of its own, and replies to each request with a queue pair that it does not own.
func (c claimant) replies(qpn uint32) net.Addr {
	c.t.Helper()
	ch, err := rdmacm.NewEventChannel()
	ok(c.t, err)
	id, err := ch.CreateID(rdmacm.PortSpaceUDP)
	ok(c.t, err)
	ok(c.t, id.Bind(netip.AddrPortFrom(c.c.At.Local.Addr(), 0)))
	ok(c.t, id.Listen(0))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			ev, err := ch.Event(ctx)
			if err != nil {
				return
			}
			_ = ev.ID.Accept(&rdmacm.ConnParam{QPN: qpn})
			_ = ev.ID.Close()
		}
	}()
	c.t.Cleanup(func() {
		stop()
		<-done
		ok(c.t, id.Close())
		ok(c.t, ch.Close())
	})
	return net.UDPAddrFromAddrPort(id.LocalAddr())
}

// TestRXE_PacketNames has a program claim what another one on its host owns: by a request, by a datagram, and by its
// replies. Datagrams for the service reach the service and nobody else, and only its own have its address.
func TestRXE_PacketNames(t *testing.T) {
	r := testutil.NeedRXE(t)
	engines := twoEngines(t)
	for _, c := range []struct {
		name  string
		claim func(thief claimant, service, sender *PacketConn)
	}{
		{"a request", func(thief claimant, service, sender *PacketConn) {
			private := make([]byte, datagram.AnnounceLen)
			copy(private, datagram.AnnounceMagic)
			binary.LittleEndian.PutUint32(private[4:], thief.c.QP.Num())
			binary.LittleEndian.PutUint16(private[8:], service.c.At.Local.Port())
			thief.requests(sender.c.At.Local, private)
		}},
		{"a datagram", func(thief claimant, service, sender *PacketConn) {
			thief.sends("I am the service", sender.LocalAddr(), service.c.At.Local)
			from := expect(thief.t, sender, []byte("I am the service"))
			if a, is := from.(*PacketAddr); !is || a.QPN() != thief.c.QP.Num() {
				thief.t.Errorf("a datagram that states another program's port is from %v", from)
			}
			// The reply reaches the sender of that datagram.
			_, err := sender.WriteTo([]byte("who?"), from)
			ok(thief.t, err)
			expect(thief.t, thief.PacketConn, []byte("who?"))
		}},
		{"a reply", func(thief claimant, service, sender *PacketConn) {
			its := thief.replies(service.c.QP.Num())
			_, err := sender.WriteTo([]byte("for the thief"), its) // which leads it to the service
			ok(thief.t, err)
			expect(thief.t, service, []byte("for the thief"))
		}},
	} {
		for _, known := range []bool{false, true} {
			name := c.name + " before the service is known"
			if known {
				name = c.name + " after"
			}
			t.Run(name, func(t *testing.T) {
				service, sender := packets(t, engines...)
				thief := newClaimant(t, r.IP[0], engines[0])
				if known {
					_, err := sender.WriteTo([]byte("before"), service.LocalAddr())
					ok(t, err)
					_, err = service.WriteTo([]byte("yes"), expect(t, service, []byte("before")))
					ok(t, err)
					expect(t, sender, []byte("yes"))
				}
				c.claim(thief, service, sender)
				for range 3 {
					_, err := sender.WriteTo([]byte("secret"), service.LocalAddr())
					ok(t, err)
					from := expect(t, service, []byte("secret"))
					_, err = service.WriteTo([]byte("answer"), from)
					ok(t, err)
					if from := expect(t, sender, []byte("answer")); from.String() != service.LocalAddr().String() {
						t.Errorf("the service's answer is from %v", from)
					}
				}
				if n := thief.Stats().Received; n > 1 {
					t.Errorf("the thief has %d datagrams", n)
				}
				thief.c.Mu.Lock()
				stolen := thief.c.Slots.Unread()
				thief.c.Mu.Unlock()
				if stolen > 0 {
					t.Errorf("%d datagrams went to the thief", stolen)
				}
			})
		}
	}
}

// TestRXE_PacketOwners: an address has one owner, also with ReuseAddr. When it has none any more, senders hear of it:
// they do not go on sending to the queue pair that it had.
func TestRXE_PacketOwners(t *testing.T) {
	r := testutil.NeedRXE(t)
	engines := twoEngines(t)
	service, sender := packets(t, engines...)
	for _, reuse := range []bool{false, true} {
		_, err := ListenPacket(timeout(t), service.LocalAddr().String(), &Options{Engine: engines[0], ReuseAddr: reuse})
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a second owner, with ReuseAddr %v: %v", reuse, err)
		}
	}
	to := service.LocalAddr()
	dialed, err := DialPacket(timeout(t), to.String(), from(r, engines[1]))
	ok(t, err)
	defer dialed.Close()
	_, err = sender.WriteTo([]byte("hello"), to)
	ok(t, err)
	expect(t, service, []byte("hello"))
	ok(t, service.Close())
	for what, send := range map[string]func() (int, error){
		"WriteTo": func() (int, error) { return sender.WriteTo([]byte("nobody"), to) },
		"Write":   func() (int, error) { return dialed.Write([]byte("nobody")) },
	} {
		sender.c.Shard.Ticks.Add(datagram.AskAfter)
		testutil.Eventually(t, what+" hears that the port has no owner", func() bool {
			_, err := send()
			if err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
				t.Fatal(err)
			}
			return err != nil
		})
	}
	again, err := ListenPacket(timeout(t), to.String(), &Options{Engine: engines[0]})
	ok(t, err)
	defer again.Close()
	_, err = dialed.Write([]byte("back"))
	ok(t, err)
	expect(t, again, []byte("back"))

	// The numbers of management's queue pairs, and of groups, are no program's.
	liar := newClaimant(t, r.IP[0], engines[0])
	for _, qpn := range []uint32{1, 1<<24 - 1} {
		var bad *ProtocolError
		if _, err := sender.WriteTo([]byte("x"), liar.replies(qpn)); !errors.As(err, &bad) {
			t.Errorf("a port whose owner names queue pair %#x: %v", qpn, err)
		}
	}
}
