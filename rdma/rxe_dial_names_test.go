package rdma

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// silent has an address whose system takes requests, and whose program replies to none.
func silent(t *testing.T, ps rdmacm.PortSpace, at netip.AddrPort) {
	t.Helper()
	ch, err := rdmacm.NewEventChannel()
	ok(t, err)
	id, err := ch.CreateID(ps)
	ok(t, err)
	t.Cleanup(func() {
		ok(t, id.Close())
		ok(t, ch.Close())
	})
	ok(t, id.SetAFOnly(true))
	ok(t, id.Bind(at))
	ok(t, id.Listen(0))
}

// TestRXE_DialNames dials names whose first address takes requests and replies to none. The second one is tried after
// the share of the first; one of the other family after 300 ms. All kinds of connections do the same.
func TestRXE_DialNames(t *testing.T) {
	needLogic(t)
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("the VM does not resolve names by DNS: runs on the emulated device only")
	}
	if !testutil.AsksDNS() {
		t.Skip("package net asks no DNS here: runs on the emulated device with this machine's libraries")
	}
	server, client := newEngines(t, &EngineOptions{Memory: 8 << 20})
	here, there := netip.MustParseAddr(r.IP[0]), netip.MustParseAddr(r.IP[1])
	list := []netip.Addr{there}
	for range 9 { // so that the share of the first is 2 s, and a busy machine has several for the second
		list = append(list, here)
	}
	testutil.Names(t, map[string][]netip.Addr{"hangs.test": list, "both.test": {netip.IPv6Loopback(), here}})
	opt := func(e *Engine) *Options { return &Options{Engine: e, Timeout: 20 * time.Second} }
	listen := func() *Options { o := opt(server); o.AFOnly = true; return o }
	for _, c := range []struct {
		name   string
		ps     rdmacm.PortSpace
		listen func(t *testing.T, at string) (port uint16)
		dial   func(addr string, o *Options) (io.Closer, error)
	}{
		{"Dial", rdmacm.PortSpaceTCP, func(t *testing.T, at string) uint16 {
			l, err := Listen(timeout(t), at, listen())
			ok(t, err)
			t.Cleanup(func() { ok(t, l.Close()) })
			return l.Addr().Port()
		}, func(addr string, o *Options) (io.Closer, error) { return Dial(timeout(t), addr, o) }},
		{"DialStream", rdmacm.PortSpaceTCP, func(t *testing.T, at string) uint16 {
			l, err := ListenStream(timeout(t), at, listen())
			ok(t, err)
			t.Cleanup(func() { ok(t, l.Close()) })
			return uint16(l.Addr().(*net.TCPAddr).Port)
		}, func(addr string, o *Options) (io.Closer, error) { return DialStream(timeout(t), addr, o) }},
		{"DialPacket", rdmacm.PortSpaceUDP, func(t *testing.T, at string) uint16 {
			p, err := ListenPacket(timeout(t), at, &Options{Engine: server})
			ok(t, err)
			t.Cleanup(func() { ok(t, p.Close()) })
			return p.c.At.Local.Port()
		}, func(addr string, o *Options) (io.Closer, error) { return DialPacket(timeout(t), addr, o) }},
	} {
		for _, host := range []string{"hangs.test", "both.test"} {
			if host == "both.test" && c.ps == rdmacm.PortSpaceUDP {
				continue // ListenPacket has no AFOnly
			}
			t.Run(c.name+" "+host, func(t *testing.T) {
				port := c.listen(t, netip.AddrPortFrom(here, 0).String())
				o := opt(client)
				if host == "hangs.test" {
					o.LocalAddr = netip.AddrPortFrom(there, 0)
					silent(t, c.ps, netip.AddrPortFrom(there, port))
				} else { // the address is the host's own, so the device of the listener
					o.Engine, o.Timeout = nil, testutil.Patience
					silent(t, c.ps, netip.AddrPortFrom(netip.IPv6Loopback(), port))
				}
				conn, err := c.dial(net.JoinHostPort(host, strconv.Itoa(int(port))), o)
				ok(t, err)
				remote := conn.(interface{ Close() error })
				if s, is := conn.(net.Conn); is {
					if ap, _ := netip.ParseAddrPort(s.RemoteAddr().String()); ap.Addr() != here {
						t.Errorf("connected to %v, want %v", ap, here)
					}
				}
				ok(t, remote.Close())
			})
		}
	}
	ok(t, CloseIdle())
}

// TestRXE_FallbackOnce dials by RDMA and by TCP at about the same time. The listener's Accept returns one connection
// for each dial, and it is the dialer's.
func TestRXE_FallbackOnce(t *testing.T) {
	needLogic(t)
	r := testutil.NeedRXE(t)
	server, client := newEngines(t, &EngineOptions{Memory: 16 << 20})
	so, co := &Options{Engine: server, Fallback: true}, from(r, client)
	if r.Emulated { // the address is the host's own
		so.Engine, co = nil, &Options{}
	}
	co.Fallback, co.Timeout = true, testutil.Patience
	l, err := ListenStream(timeout(t), net.JoinHostPort(r.Host[0], "0"), so)
	ok(t, err)
	var seen []uint32 // the numbers of the accepted connections
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			number := make([]byte, 4)
			if _, err := io.ReadFull(c, number); err != nil {
				t.Errorf("a connection that nobody has: %v", err)
			} else {
				seen = append(seen, binary.LittleEndian.Uint32(number))
			}
			ok(t, c.Close())
		}
	})
	const dials = 150
	took, by := time.Duration(0), map[bool]int{} // of a dial by RDMA; how many had RDMA
	for n := range uint32(dials) {
		o := *co
		o.fallbackAfter = 1 + rand.N(2*took+1) // so that both come to their end at about the same time
		if n == 0 {
			o.fallbackAfter = testutil.Patience
		}
		begin := time.Now()
		c, err := DialStream(timeout(t), l.Addr().String(), &o)
		ok(t, err)
		switch is := time.Since(begin); {
		case n == 0 || c.tcp == nil && is < took:
			took = is
		case c.tcp != nil:
			took += took / 8
		}
		by[c.tcp == nil]++
		_, err = c.Write(binary.LittleEndian.AppendUint32(nil, n))
		ok(t, err)
		if _, err = c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("dial %d: %v", n, err)
		}
		ok(t, c.Close())
	}
	ok(t, l.Close())
	accepting.Wait()
	if len(seen) != dials {
		t.Errorf("%d connections for %d dials: %v", len(seen), dials, seen)
	}
	t.Logf("%d by RDMA, %d by TCP", by[true], by[false])
	ok(t, CloseIdle())
}
