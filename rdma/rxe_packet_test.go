package rdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdma/internal/packet"
)

// packets opens a socket on each device.
func packets(t testing.TB, engines ...*Engine) (a, b *PacketConn) {
	t.Helper()
	r := testutil.NeedRXE(t)
	var list []*PacketConn
	for i, e := range engines {
		c, err := ListenPacket(timeout(t), net.JoinHostPort(r.IP[i], "0"), &Options{Engine: e})
		ok(t, err)
		t.Cleanup(func() { ok(t, c.Close()) })
		list = append(list, c)
	}
	return list[0], list[1]
}

// expect reads a datagram.
func expect(t testing.TB, c *PacketConn, want []byte) net.Addr {
	t.Helper()
	p := make([]byte, c.MaxDatagram()+1)
	ok(t, c.SetReadDeadline(time.Now().Add(testutil.Patience)))
	n, from, err := c.ReadFrom(p)
	ok(t, err)
	if !bytes.Equal(p[:n], want) {
		t.Errorf("a datagram of %d bytes, want %d", n, len(want))
	}
	return from
}

func smallEngines(t testing.TB) (server, client *Engine) {
	return newEngines(t, &EngineOptions{Memory: 8 << 20})
}

// TestRXE_Packet sends datagrams of all lengths to an address, and back to where they came from.
func TestRXE_Packet(t *testing.T) {
	a, b := packets(t, twoEngines(t)...)
	most := b.MaxDatagram()
	for _, n := range []int{1, 28, 100, most - 1, most, 0} {
		data := bytes.Repeat([]byte{byte(n)}, n)
		sent, err := b.WriteTo(data, a.LocalAddr())
		ok(t, err)
		from := expect(t, a, data)
		if udp, is := from.(*net.UDPAddr); sent != n || !is || udp.AddrPort() != b.c.At.Local {
			t.Errorf("%d bytes sent from %v: %d, from %v", n, b.LocalAddr(), sent, from)
		}
		_, err = a.WriteTo(data, from)
		ok(t, err)
		if from := expect(t, b, data); from.String() != a.LocalAddr().String() {
			t.Errorf("the answer is from %v, want %v", from, a.LocalAddr())
		}
	}
	var limit *ibv.LimitError
	if _, err := b.WriteTo(make([]byte, most+1), a.LocalAddr()); !errors.Is(err, ErrTooLarge) ||
		!errors.As(err, &limit) || limit.Limit != uint64(most) {
		t.Errorf("a datagram that is too long: %v", err)
	}
	_, err := b.WriteTo([]byte("as by UDP"), net.UDPAddrFromAddrPort(a.c.At.Local))
	ok(t, err)
	p := make([]byte, 2)
	if n, _, err := a.ReadFrom(p); err != nil || string(p[:n]) != "as" {
		t.Errorf("%q, %v; want what fits", p[:n], err)
	}
	// A source that was forgotten is asked again, and one that has no name is named by its queue pair.
	_, err = b.WriteTo([]byte("1"), a.LocalAddr())
	ok(t, err)
	from := expect(t, a, []byte("1"))
	forget(t, a)
	_, err = a.WriteTo([]byte("2"), from)
	ok(t, err)
	expect(t, b, []byte("2"))
	forget(t, a)
	_, err = b.WriteTo([]byte("3"), a.LocalAddr())
	ok(t, err)
	from = expect(t, a, []byte("3"))
	if p, is := from.(*PacketAddr); !is || !strings.Contains(p.String(), " qp 0x") || p.QPN() != b.c.QP.Num() ||
		p.AddrPort() != netip.AddrPortFrom(b.c.At.Local.Addr(), 0) {
		t.Errorf("a source without a name is %T %v", from, from)
	}
	_, err = a.WriteTo([]byte("4"), from)
	ok(t, err)
	expect(t, b, []byte("4"))
	if s := a.Stats(); s.Received != 9 || s.Sent != 8 || s.Dropped != 0 || s.Peers != 1 {
		t.Errorf("counters %+v", s)
	}
	var busy *ibv.BusyError
	err = a.c.Shard.Engine.Close()
	if !errors.As(err, &busy) || !strings.Contains(err.Error(), "1 sockets for datagrams") {
		t.Errorf("closing the engine: %v", err)
	}
}

func twoEngines(t testing.TB) []*Engine {
	server, client := smallEngines(t)
	return []*Engine{server, client}
}

// forget makes a socket forget all peers.
func forget(t *testing.T, c *PacketConn) {
	t.Helper()
	testutil.Eventually(t, "nothing is under way", func() bool {
		c.c.Mu.Lock()
		defer c.c.Mu.Unlock()
		return c.c.Slots.AllSent()
	})
	for {
		c.c.Mu.Lock()
		n := c.c.Table.Len()
		unused := c.c.Table.Forget()
		c.c.Mu.Unlock()
		packet.CloseAHs(unused)
		if n == 0 {
			return
		}
	}
}

// TestRXE_PacketManual has engines that only their users poll.
func TestRXE_PacketManual(t *testing.T) {
	server, client := newEngines(t, &EngineOptions{Memory: 8 << 20, Manual: true})
	a, b := packets(t, server, client)
	for range 2 * datagram.Sends {
		_, err := b.WriteTo([]byte("hello"), a.LocalAddr())
		ok(t, err)
		_, err = a.WriteTo([]byte("good day"), expect(t, a, []byte("hello")))
		ok(t, err)
		expect(t, b, []byte("good day"))
	}
}

// TestRXE_PacketDial has a socket for one peer, which hears nobody else.
func TestRXE_PacketDial(t *testing.T) {
	r := testutil.NeedRXE(t)
	engines := twoEngines(t)
	a, other := packets(t, engines...)
	c, err := DialPacket(timeout(t), a.LocalAddr().String(), from(r, engines[1]))
	ok(t, err)
	defer c.Close()
	if c.RemoteAddr().String() != a.LocalAddr().String() || a.RemoteAddr() != nil {
		t.Errorf("remote addresses %v and %v", c.RemoteAddr(), a.RemoteAddr())
	}
	if want := "rdma " + r.Dev[1] + " "; !strings.HasPrefix(c.Transport(), want) {
		t.Errorf("transport %q, want %s…", c.Transport(), want)
	}
	_, err = c.Write([]byte("hello"))
	ok(t, err)
	peer := expect(t, a, []byte("hello"))
	if peer.String() != c.LocalAddr().String() {
		t.Errorf("from %v, want %v", peer, c.LocalAddr())
	}
	_, err = other.WriteTo([]byte("advertisement"), c.LocalAddr())
	ok(t, err)
	testutil.Eventually(t, "the other datagram has arrived", func() bool {
		c.c.Mu.Lock()
		defer c.c.Mu.Unlock()
		return c.c.Slots.Unread() == 1
	})
	_, err = a.WriteTo([]byte("good day"), peer)
	ok(t, err)
	p := make([]byte, 100)
	if n, err := c.Read(p); err != nil || string(p[:n]) != "good day" {
		t.Errorf("%q, %v", p[:n], err)
	}
	if s := c.Stats(); s.Dropped != 1 || s.Received != 1 {
		t.Errorf("counters %+v", s)
	}
	if _, err := c.WriteTo(p, a.LocalAddr()); !errors.Is(err, net.ErrWriteToConnected) {
		t.Errorf("WriteTo: %v", err)
	}
	if _, err := a.Write(p); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("Write without a peer: %v", err)
	}

	// Without a source address the route has one.
	d, err := DialPacket(timeout(t), a.LocalAddr().String(), nil)
	ok(t, err)
	_, err = d.Write([]byte("by the route"))
	ok(t, err)
	expect(t, a, []byte("by the route"))
	ok(t, d.Close())
}

// TestRXE_PacketRestart has a service close and listen again at its address. A socket that knew it, and a dialed one,
// reach it again. The time is that of their engine.
func TestRXE_PacketRestart(t *testing.T) {
	r := testutil.NeedRXE(t)
	engines := twoEngines(t)
	a, b := packets(t, engines...)
	d, err := DialPacket(timeout(t), a.LocalAddr().String(), from(r, engines[1]))
	ok(t, err)
	defer d.Close()
	to := a.LocalAddr()
	_, err = b.WriteTo([]byte("before"), to)
	ok(t, err)
	expect(t, a, []byte("before"))
	_, err = d.Write([]byte("dialed, before"))
	ok(t, err)
	expect(t, a, []byte("dialed, before"))
	ok(t, a.Close())
	again, err := ListenPacket(timeout(t), to.String(), &Options{Engine: engines[0]})
	ok(t, err)
	defer again.Close()
	p := make([]byte, 100)
	for _, send := range []struct {
		what string
		f    func() (int, error)
		c    *PacketConn
	}{
		{"WriteTo", func() (int, error) { return b.WriteTo([]byte("WriteTo"), to) }, b},
		{"Write", func() (int, error) { return d.Write([]byte("Write")) }, d},
	} {
		send.c.c.Shard.Ticks.Add(datagram.AskAfter)
		testutil.Eventually(t, send.what+" reaches the service that has restarted", func() bool {
			_, err := send.f()
			ok(t, err)
			ok(t, again.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
			n, from, err := again.ReadFrom(p)
			if err != nil || string(p[:n]) != send.what { // one that was late, and was sent again
				return false
			}
			_, err = again.WriteTo(p[:n], from)
			ok(t, err)
			ok(t, send.c.SetReadDeadline(time.Now().Add(testutil.Patience)))
			n, _, err = send.c.ReadFrom(p)
			ok(t, err)
			return string(p[:n]) == send.what
		})
	}
}

// TestRXE_PacketRandom has several writers on both sides: what arrives is whole, and none arrives twice.
func TestRXE_PacketRandom(t *testing.T) {
	needLogic(t)
	a, b := packets(t, twoEngines(t)...)
	const writers, each = 4, 200
	var writing, reading sync.WaitGroup
	for side, c := range []*PacketConn{a, b} {
		to := []*PacketConn{b, a}[side].LocalAddr()
		for w := range writers {
			writing.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(side), uint64(w)))
				for i := range each {
					p := make([]byte, 12+rnd.IntN(c.MaxDatagram()-11))
					for i := range p {
						p[i] = byte(rnd.Uint32())
					}
					binary.LittleEndian.PutUint64(p, uint64(w*each+i))
					binary.LittleEndian.PutUint32(p[8:], 0)
					binary.LittleEndian.PutUint32(p[8:], crc32.ChecksumIEEE(p))
					if _, err := c.WriteTo(p, to); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		reading.Go(func() {
			seen := make(map[uint64]bool)
			p := make([]byte, c.MaxDatagram())
			for {
				n, _, err := c.ReadFrom(p)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					break
				}
				if err != nil || n < 12 {
					t.Errorf("%d bytes, %v", n, err)
					return
				}
				sum, id := binary.LittleEndian.Uint32(p[8:]), binary.LittleEndian.Uint64(p)
				binary.LittleEndian.PutUint32(p[8:], 0)
				if crc32.ChecksumIEEE(p[:n]) != sum || seen[id] || id >= writers*each {
					t.Errorf("datagram %d of %d bytes: wrong bytes, or a second one", id, n)
				}
				seen[id] = true
			}
			if len(seen) < a.c.Slots.Receives() {
				t.Errorf("%d datagrams of %d arrived, want at least the %d that are kept", len(seen), writers*each,
					a.c.Slots.Receives())
			}
		})
	}
	writing.Wait()
	for _, c := range []*PacketConn{a, b} { // all that is kept is read before the deadline
		testutil.Eventually(t, "all is read", func() bool {
			c.c.Mu.Lock()
			defer c.c.Mu.Unlock()
			return c.c.Slots.Unread() == 0 && c.c.Slots.AllSent()
		})
		ok(t, c.SetReadDeadline(time.Now()))
	}
	reading.Wait()
}

// TestRXE_PacketFlood sends more than a socket keeps: the rest is lost, and a stream of the same engines goes on.
func TestRXE_PacketFlood(t *testing.T) {
	engines := twoEngines(t)
	a, b := packets(t, engines...)
	s, d := streams(t, engines[0], engines[1])
	defer s.Close()
	defer d.Close()
	p := make([]byte, 1000)
	for range 5 * a.c.Slots.Receives() {
		_, err := b.WriteTo(p, a.LocalAddr())
		ok(t, err)
	}
	exchange(t, s, d)
	testutil.Eventually(t, "the socket is full", func() bool { return a.Stats().Full > 0 })
	for range a.c.Slots.Receives() {
		expect(t, a, p)
	}
	for { // what the device took while those were read
		ok(t, a.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
		if _, _, err := a.ReadFrom(p); err != nil {
			break
		}
	}
	ok(t, b.SetWriteDeadline(time.Time{}))
	_, err := b.WriteTo([]byte("afterwards"), a.LocalAddr())
	ok(t, err)
	expect(t, a, []byte("afterwards"))
}

// TestRXE_PacketGroup has two sockets of a device join a group. What the network between two devices does with
// multicast is its own affair.
func TestRXE_PacketGroup(t *testing.T) {
	r := testutil.NeedRXE(t)
	server, _ := smallEngines(t)
	a, _ := packets(t, server, nil)
	b, err := ListenPacket(timeout(t), net.JoinHostPort(r.IP[0], "0"), &Options{Engine: server})
	ok(t, err)
	defer func() { ok(t, b.Close()) }()
	group := netip.MustParseAddr("239.1.2.3")
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(group, 7))
	var arg *ibv.ArgError
	if _, err := b.WriteTo([]byte("hello"), to); !errors.As(err, &arg) || !strings.Contains(err.Error(), "Join") {
		t.Errorf("to a group that was not joined: %v", err)
	}
	ok(t, a.Join(timeout(t), group))
	ok(t, b.Join(timeout(t), group))
	if err := b.Join(timeout(t), group); !errors.As(err, &arg) {
		t.Errorf("joined twice: %v", err)
	}
	if err := b.Join(timeout(t), netip.MustParseAddr(r.IP[0])); !errors.As(err, &arg) {
		t.Errorf("an address that is not a group's: %v", err)
	}
	_, err = b.WriteTo([]byte("hello"), to)
	ok(t, err)
	from := expect(t, a, []byte("hello"))
	_, err = a.WriteTo([]byte("good day"), from)
	ok(t, err)
	testutil.Eventually(t, "the answer has arrived", func() bool { // perhaps behind one's own datagram
		p := make([]byte, 100)
		n, _, err := b.ReadFrom(p)
		ok(t, err)
		return string(p[:n]) == "good day"
	})
	testutil.Eventually(t, "b leaves", func() bool { // once nothing is under way
		var busy *ibv.BusyError
		err := b.Leave(group)
		if !errors.As(err, &busy) {
			ok(t, err)
		}
		return err == nil
	})
	if err := b.Leave(group); !errors.As(err, &arg) {
		t.Errorf("left twice: %v", err)
	}
}

// TestRXE_PacketErrors has what is refused, and how waiting ends.
func TestRXE_PacketErrors(t *testing.T) {
	r := testutil.NeedRXE(t)
	engines := twoEngines(t)
	a, b := packets(t, engines...)
	var arg *ibv.ArgError
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		if _, err := ListenPacket(timeout(t), addr, nil); !errors.As(err, &arg) {
			t.Errorf("listening at %s: %v", addr, err)
		}
	}
	if _, err := ListenPacket(timeout(t), a.LocalAddr().String(), nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port that is taken: %v", err)
	}
	if _, err := ListenPacket(timeout(t), "192.0.2.77:0", nil); err == nil {
		t.Error("an address of nobody is listened at")
	}
	if r.Dev[0] != r.Dev[1] {
		_, err := ListenPacket(timeout(t), net.JoinHostPort(r.IP[0], "0"), &Options{Engine: engines[1]})
		if !errors.As(err, &arg) {
			t.Errorf("the engine of another device: %v", err)
		}
	}
	small, err := NewEngine(r.Dev[0], &EngineOptions{Block: 1024, Memory: 4 << 20})
	ok(t, err)
	if a.MaxDatagram() > 1024 {
		if _, err := ListenPacket(timeout(t), net.JoinHostPort(r.IP[0], "0"), &Options{Engine: small}); !errors.As(err,
			&arg) {
			t.Errorf("an engine with short blocks: %v", err)
		}
	}
	ok(t, small.Close())
	one, err := NewEngine(r.Dev[0], &EngineOptions{Memory: 4 << 20, MaxConns: 1})
	ok(t, err)
	var limit *ibv.LimitError
	if _, err := ListenPacket(timeout(t), net.JoinHostPort(r.IP[0], "0"), &Options{Engine: one}); !errors.As(err,
		&limit) {
		t.Errorf("an engine without room: %v", err)
	}
	ok(t, one.Close())

	tight, err := NewEngine(r.Dev[0], &EngineOptions{Memory: 4 << 20})
	ok(t, err)
	var open []*PacketConn
	for err == nil && len(open) < 16 {
		var c *PacketConn
		if c, err = ListenPacket(timeout(t), net.JoinHostPort(r.IP[0], "0"), &Options{Engine: tight}); err == nil {
			open = append(open, c)
		}
	}
	if !errors.Is(err, ErrNoMemory) || !errors.As(err, &limit) || len(open) == 0 {
		t.Errorf("an engine without memory: %d sockets, %v", len(open), err)
	}
	for _, c := range open {
		ok(t, c.Close())
	}
	if s := tight.Stats(); s.BlocksFree+s.BlocksPosted != s.Blocks {
		t.Errorf("blocks at the end: %+v", s)
	}
	ok(t, tight.Close())

	p := make([]byte, 10)
	for _, to := range []net.Addr{nil, (*PacketAddr)(nil), &net.UDPAddr{}, &net.UnixAddr{Name: "x"},
		&PacketAddr{packet.Source{Of: a.c, At: datagram.Address{QPN: 5}}}} {
		if _, err := b.WriteTo(p, to); !errors.As(err, &arg) {
			t.Errorf("to %v: %v", to, err)
		}
	}
	nobody := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(r.IP[0]), 9))
	if _, err := b.WriteTo(p, nobody); err == nil {
		t.Error("a port of nobody is found")
	}
	ctx, cancel := context.WithCancel(timeout(t))
	cancel()
	if _, err := DialPacket(ctx, a.LocalAddr().String(), from(r, engines[1])); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}

	ok(t, a.SetDeadline(time.Now().Add(-time.Second)))
	if _, _, err := a.ReadFrom(p); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("ReadFrom after the deadline: %v", err)
	}
	if _, err := a.WriteTo(p, b.LocalAddr()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("WriteTo after the deadline: %v", err)
	}
	ok(t, a.SetDeadline(time.Time{}))
	waits := make(chan error)
	go func() {
		_, _, err := a.ReadFrom(p)
		waits <- err
	}()
	ok(t, a.Close())
	if err := <-waits; !errors.Is(err, net.ErrClosed) {
		t.Errorf("ReadFrom while closing: %v", err)
	}
	if _, err := a.Read(p); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	if _, err := a.WriteTo(p, b.LocalAddr()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("WriteTo after Close: %v", err)
	}
	if err := a.Join(timeout(t), netip.MustParseAddr("239.1.2.3")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Join after Close: %v", err)
	}
	if err := a.Leave(netip.MustParseAddr("239.1.2.3")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Leave after Close: %v", err)
	}
	ok(t, a.Close())
}

// TestRXE_PacketFault has the device break a socket.
func TestRXE_PacketFault(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("injects a fault: runs on the emulated device only (make test-emu)")
	}
	a, b := packets(t, twoEngines(t)...)
	_, err := b.WriteTo([]byte("hello"), a.LocalAddr())
	ok(t, err)
	expect(t, a, []byte("hello"))
	r.Fault(t, "qp-fatal:count=1,device="+r.Dev[1])
	for err == nil {
		_, err = b.WriteTo([]byte("hello"), a.LocalAddr())
	}
	if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("sending: %v", err)
	}
	if _, _, err := b.ReadFrom(make([]byte, 10)); err == nil || errors.Is(err, net.ErrClosed) {
		t.Errorf("receiving: %v", err)
	}
}

// TestRXE_PacketAllocs sends and receives without allocating.
func TestRXE_PacketAllocs(t *testing.T) {
	a, b := packets(t, twoEngines(t)...)
	out, in, to := make([]byte, 100), make([]byte, 100), a.LocalAddr()
	_, err := b.WriteTo(out, to)
	ok(t, err)
	_, answer, err := a.ReadFrom(in)
	ok(t, err)
	if n := testing.AllocsPerRun(50, func() {
		_, err := b.WriteTo(out, to)
		ok(t, err)
		_, _, err = a.ReadFrom(in)
		ok(t, err)
		_, err = a.WriteTo(out, answer)
		ok(t, err)
		_, _, err = b.ReadFrom(in)
		ok(t, err)
	}); n != 0 {
		t.Errorf("%v allocations for a datagram each way", n)
	}
}
