//go:build linux

package cm

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

func TestPorts(t *testing.T) {
	s, p, q := pair(t)
	bindTo := func(p *prog, ps uint16, addr string, opts ...uint32) (uint32, unix.Errno) {
		i := p.create(1, ps)
		for _, o := range opts {
			p.option(i, 0, o, []byte{1, 0, 0, 0})
		}
		return i, cmd(p, 2, bindIP{Addr: sockaddr(addr), ID: i}, 0)
	}
	const reuse, afonly = 1, 2
	for _, c := range []struct {
		ps   uint16
		addr string
		opts []uint32
		want unix.Errno
	}{
		{psTCP, "10.0.0.1:7000", nil, 0},
		{psTCP, "10.0.0.1:7000", nil, unix.EADDRINUSE},
		{psTCP, "10.0.0.2:7000", nil, 0},
		{psTCP, "0.0.0.0:7000", nil, unix.EADDRNOTAVAIL},
		{psTCP, "127.0.0.1:7000", nil, unix.EADDRNOTAVAIL},
		{psUDP, "0.0.0.0:7000", nil, 0},
		{psTCP, "[fd00::1]:7000", []uint32{afonly}, 0},
		{psTCP, "0.0.0.0:7001", []uint32{reuse}, 0},
		{psTCP, "0.0.0.0:7001", []uint32{reuse}, 0},
		{psTCP, "0.0.0.0:7001", nil, unix.EADDRNOTAVAIL},
		{psTCP, "[::]:7001", []uint32{afonly}, 0},
		{psTCP, "[fe80::1]:7002", nil, unix.EINVAL},       // link-local without interface
		{psTCP, "[fe80::1%7]:7002", nil, unix.ENODEV},     // no such interface
		{psTCP, "[fe80::1%10002]:7002", nil, unix.ENODEV}, // emu1's, and the address is emu0's
		{psTCP, "[fe80::1%10001]:7002", nil, 0},
		{psTCP, "198.51.100.1:7003", nil, unix.EADDRNOTAVAIL}, // not this machine's
		{psTCP, "192.0.2.1:7003", nil, 0},
	} {
		if _, e := bindTo(p, c.ps, c.addr, c.opts...); e != c.want {
			t.Errorf("%#x %s %v: %v, want %v", c.ps, c.addr, c.opts, e, c.want)
		}
	}
	// Those that share a port may not listen; one that listens shares it with nobody.
	a, _ := bindTo(p, psTCP, "10.0.0.1:7004", reuse)
	b, _ := bindTo(q, psTCP, "10.0.0.1:7004", reuse)
	if e := cmd(q, 7, idAndNumber{b, 1}, 0); e != unix.EADDRINUSE {
		t.Errorf("listening at a shared port: %v", e)
	}
	q.must(cmd(q, 1, destroyID{Response: respAt, ID: b}, 4))
	p.must(cmd(p, 7, idAndNumber{a, 1}, 0))
	if _, e := bindTo(q, psTCP, "10.0.0.1:7004", reuse); e != unix.EADDRINUSE {
		t.Errorf("sharing a listener's port: %v", e)
	}
	if e := cmd(p, 7, idAndNumber{a, 1}, 0); e != unix.EINVAL {
		t.Errorf("listening twice: %v", e)
	}
	// Ids without a number get different ones.
	seen := map[uint16]bool{}
	for range 200 {
		i, e := bindTo(p, psTCP, "10.0.0.1:0")
		p.must(e)
		seen[(*s.ids.slots[i]).src.port] = true
	}
	if len(seen) != 200 || seen[0] {
		t.Errorf("%d different ports of 200", len(seen))
	}
	// An unbound id that listens is bound to any address.
	i := p.create(1, psTCP)
	p.must(cmd(p, 7, idAndNumber{i, 0}, 0))
	p.must(cmd(p, 5, query{respAt, i, 0}, 208))
	if r := answer[queryRouteResp](p); r.Src[0] != unix.AF_INET || r.NodeGUID != [8]byte{} {
		t.Errorf("route of a wildcard listener %+v", r)
	}
	p.exit()
	q.exit()
	idle(t, s)
}

// TestZones resolves link-local addresses: the id's device is that of the interface that the zone names.
func TestZones(t *testing.T) {
	s, c, _ := pair(t)
	for _, x := range []struct {
		dst, src string
		port     *hca.Port
	}{
		{"[fe80::2%10002]:1", "fe80::2", s.f.Devices[1].Ports[0]},
		{"[fe80::2%10001]:1", "fe80::1", s.f.Devices[0].Ports[0]},
	} {
		n := c.resolve(1, psTCP, x.dst)
		i := s.ids.get(n)
		if i.src.ip.String() != x.src || i.port != x.port || i.remote.port != s.f.Devices[1].Ports[0] {
			t.Errorf("%s: from %v on %s to %s", x.dst, i.src.ip, i.port.Device.Config.Name,
				i.remote.port.Device.Config.Name)
		}
	}
	n := c.create(1, psTCP)
	if e := cmd(c, 3, resolveIP{Dst: sockaddr("[fe80::2%7]:1"), ID: n, Timeout: 1}, 0); e != unix.ENETUNREACH {
		t.Errorf("no such interface: %v", e)
	}
	n = c.create(1, psTCP)
	c.must(cmd(c, 3, resolveIP{Dst: sockaddr("[fe80::9%10001]:1"), ID: n, Timeout: 1}, 0))
	soon(t, s, "the error", func() bool { return c.sig > 0 })
	c.status(evAddrError, -int32(unix.ETIMEDOUT))
}
