//go:build linux

package cm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/await"
	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// world is a fabric of two devices: 10.0.0.1 and fd00::1 on mlx5_0, 10.0.0.2 and fd00::2 on mlx5_1. 192.0.2.1 is a
// plain address of the machine.
func world(t testing.TB) *Server {
	c := config.Default()
	c.Devices = append(c.Devices, c.Devices[0])
	f := &hca.Fabric{Config: c}
	for n := range c.Devices {
		d := &c.Devices[n]
		d.NodeGUID += config.GUID(n)
		d.Ports = append([]config.Port(nil), d.Ports...)
		p := &d.Ports[0]
		p.GIDs, p.Netdev = nil, "emu"+strconv.Itoa(n)
		for _, a := range []string{"fe80::1", "10.0.0.1", "fd00::1"} {
			g, err := config.ParseAddr(a)
			if err != nil {
				t.Fatal(err)
			}
			g[15] += byte(n)
			p.GIDs = append(p.GIDs, config.GID{GID: g, Type: config.GIDTypeRoCEv1, Netdev: p.Netdev},
				config.GID{GID: g, Type: config.GIDTypeRoCEv2, Netdev: p.Netdev})
		}
		dev := &hca.Device{Fabric: f, Config: d, Index: n}
		dev.Ports = []*hca.Port{{Device: dev, Number: 1, Config: p, Active: true}}
		f.Devices, f.Ports = append(f.Devices, dev), append(f.Ports, dev.Ports...)
	}
	s := New(f)
	s.response, s.timewait = time.Minute, time.Minute
	s.local = func(ip netip.Addr) bool { return ip == netip.MustParseAddr("192.0.2.1") }
	s.routed = func(ip netip.Addr) unix.Errno {
		if ip == netip.MustParseAddr("203.0.113.1") {
			return unix.ENETUNREACH
		}
		return 0
	}
	return s
}

// prog is a program with one open rdma_cm file; its memory is 64 KiB at address base.
type prog struct {
	t    testing.TB
	s    *Server
	name string
	fl   *file
	mem  []byte
	sig  int // bytes in the pipe
	over bool
	gone bool // killed
	wait bool // blocks in GET_EVENT rather than EAGAIN
	hit  bool // has a signal
	fds  map[int]string
	n    int
	e    unix.Errno
	done bool // the last command was answered
}

const base = 0x10000

func newProg(t testing.TB, s *Server, name string) *prog {
	p := &prog{t: t, s: s, name: name, mem: make([]byte, 1<<16), fds: map[int]string{3: name}}
	s.f.Lock()
	defer s.f.Unlock()
	p.fl = s.open(name, p)
	return p
}

func (p *prog) Put(b []byte) error         { p.sig += len(b); return nil }
func (p *prog) Close() error               { p.over = true; return nil }
func (p *prog) alive() bool                { return !p.gone }
func (p *prog) signaled() bool             { return p.hit }
func (p *prog) tid() int                   { return 1 }
func (p *prog) nonblock() bool             { return !p.wait }
func (p *prog) file(fd int) string         { return p.fds[fd] }
func (p *prog) answer(n int, e unix.Errno) { p.n, p.e, p.done = n, e, true }

func (p *prog) Take(n int) int {
	if p.sig -= n; p.sig < 0 {
		p.t.Errorf("%s: %d bytes more taken off the signal than there were", p.name, -p.sig)
	}
	return n
}

var errFault = errors.New("fault")

func (p *prog) at(addr uint64, n int) ([]byte, error) {
	if p.gone || addr < base || addr-base > uint64(len(p.mem)) || uint64(n) > uint64(len(p.mem))-(addr-base) {
		return nil, errFault
	}
	return p.mem[addr-base:][:n], nil
}

func (p *prog) Read(addr uint64, b []byte) error {
	m, err := p.at(addr, len(b))
	copy(b, m)
	return err
}

func (p *prog) Write(addr uint64, b []byte) error {
	m, err := p.at(addr, len(b))
	copy(m, b)
	return err
}

// Where the helpers put a command and its answer.
const (
	cmdAt  = base
	respAt = base + 0x1000
)

// raw executes a write() of b.
func (p *prog) raw(b []byte) unix.Errno {
	p.t.Helper()
	copy(p.mem, b)
	p.done = false
	p.s.f.Lock()
	p.s.execute(p, p.fl, cmdAt, uint64(len(b)))
	p.s.f.Unlock()
	if p.done && p.e == 0 && p.n != len(b) {
		p.t.Errorf("%s: answer %d of a write of %d bytes", p.name, p.n, len(b))
	}
	return p.e
}

// cmd executes one command with a body; the answer has room for out bytes.
func cmd[T any](p *prog, num uint32, body T, out int) unix.Errno {
	p.t.Helper()
	b := uapi.Bytes(&body)
	h := header{Cmd: num, In: uint16(len(b)), Out: uint16(out)}
	return p.raw(append(bytes.Clone(uapi.Bytes(&h)), b...))
}

func answer[T any](p *prog) T { return uapi.Decode[T](p.mem[respAt-base:]) }

func (p *prog) must(e unix.Errno) {
	p.t.Helper()
	if e != 0 {
		p.t.Fatalf("%s: %v", p.name, e)
	}
}

func (p *prog) create(uid uint64, ps uint16) uint32 {
	p.t.Helper()
	p.must(cmd(p, 0, createID{UID: uid, Response: respAt, PS: ps, QPType: 2}, 4))
	return answer[uint32](p)
}

func sockaddr(s string) (b [28]byte) {
	ap := netip.MustParseAddrPort(s)
	a := address{family: unix.AF_INET, ip: ap.Addr(), port: ap.Port()}
	if ap.Addr().Is6() {
		a.family, a.ip = unix.AF_INET6, ap.Addr().WithZone("")
		if n, err := strconv.ParseUint(ap.Addr().Zone(), 10, 32); err == nil {
			a.scope = uint32(n)
		}
	}
	a.write(b[:])
	return b
}

// event fetches the next event and wants it to be of a kind.
func (p *prog) event(kind uint32) eventResp {
	p.t.Helper()
	if e := cmd(p, 12, getEvent{respAt}, 336); e != 0 {
		p.t.Fatalf("%s: event %d awaited: %v", p.name, kind, e)
	}
	ev := answer[eventResp](p)
	if ev.Event != kind {
		p.t.Fatalf("%s: event %d with status %d in place of %d", p.name, ev.Event, int32(ev.Status), kind)
	}
	if p.sig != len(p.fl.events) {
		p.t.Errorf("%s: after event %d %d bytes are in the pipe, for %d events", p.name, kind, p.sig, len(p.fl.events))
	}
	return ev
}

// quiet wants that there is no event.
func (p *prog) quiet() {
	p.t.Helper()
	if e := cmd(p, 12, getEvent{respAt}, 336); e != unix.EAGAIN {
		p.t.Fatalf("%s: errno %d and event %d where nothing should be", p.name, int(e), answer[eventResp](p).Event)
	}
	if p.sig != 0 {
		p.t.Errorf("%s: %d bytes in the pipe of an empty queue", p.name, p.sig)
	}
}

func (p *prog) conn(ev eventResp) connParam { return uapi.Decode[connParam](ev.Param[:]) }
func (p *prog) ud(ev eventResp) udParam     { return uapi.Decode[udParam](ev.Param[:]) }

// listen makes a listening id.
func (p *prog) listen(uid uint64, ps uint16, addr string, backlog uint32) uint32 {
	p.t.Helper()
	l := p.create(uid, ps)
	p.must(cmd(p, 2, bindIP{Addr: sockaddr(addr), ID: l}, 0))
	p.must(cmd(p, 7, idAndNumber{l, backlog}, 0))
	return l
}

// resolve makes an id with a route.
func (p *prog) resolve(uid uint64, ps uint16, addr string) uint32 {
	p.t.Helper()
	i := p.create(uid, ps)
	p.must(cmd(p, 3, resolveIP{Dst: sockaddr(addr), ID: i, Timeout: 1000}, 0))
	p.event(evAddrResolved)
	p.must(cmd(p, 4, idAndNumber{i, 1000}, 0))
	p.event(evRouteResolved)
	return i
}

func param(qpn uint32, private string) connParam {
	c := connParam{QPNum: qpn, Len: uint8(len(private)), RespRes: 3, InitDepth: 5, FlowControl: 1, Retry: 9,
		RNRRetry: 6, Valid: 1}
	copy(c.Private[:], private)
	return c
}

func (p *prog) attr(i uint32, st hca.QPState) qpAttr {
	p.t.Helper()
	p.must(cmd(p, 11, query{respAt, i, uint32(st)}, 144))
	return answer[qpAttr](p)
}

// connected is a pair that shook hands: the ids of client and server.
func connected(t testing.TB, c, v *prog, addr string) (ci, vi uint32) {
	t.Helper()
	l := v.listen(0x1, psTCP, addr, 0)
	ci = c.resolve(0xc1, psTCP, addr)
	c.must(cmd(c, 6, connect{Param: param(0x111, "hi"), ID: ci}, 0))
	vi = v.event(evConnectRequest).ID
	v.must(cmd(v, 8, accept{UID: 0x51, Param: param(0x222, "ho"), ID: vi}, 0))
	c.event(evConnectResponse)
	c.must(cmd(c, 8, accept{ID: ci}, 0))
	v.event(evEstablished)
	v.must(cmd(v, 1, destroyID{Response: respAt, ID: l}, 4))
	return ci, vi
}

// idle wants that a server keeps nothing.
func idle(t testing.TB, s *Server) {
	t.Helper()
	s.f.Lock()
	defer s.f.Unlock()
	if s.ids.used != 0 || s.mcs.used != 0 || len(s.ports) != 0 || len(s.files) != 0 {
		t.Errorf("left over: %d ids, %d groups, %d ports, %d files", s.ids.used, s.mcs.used, len(s.ports), len(s.files))
	}
}

func (p *prog) exit() {
	p.s.f.Lock()
	p.s.release(p.name)
	p.s.f.Unlock()
}

// soon waits for a condition that a timer brings about.
func soon(t testing.TB, s *Server, what string, f func() bool) {
	t.Helper()
	await.Eventually(t, what, func() bool {
		s.f.Lock()
		defer s.f.Unlock()
		return f()
	})
}

func TestLayout(t *testing.T) {
	for name, v := range map[string][2]int{
		"createID":       {uapi.Size[createID](), 24},
		"bindIP":         {uapi.Size[bindIP](), 40},
		"bind":           {uapi.Size[bind](), 136},
		"resolveIP":      {uapi.Size[resolveIP](), 64},
		"resolveAddr":    {uapi.Size[resolveAddr](), 272},
		"query":          {uapi.Size[query](), 16},
		"pathRec":        {uapi.Size[pathRec](), 64},
		"queryRouteResp": {uapi.Size[queryRouteResp](), 208},
		"queryAddrResp":  {uapi.Size[queryAddrResp](), 280},
		"sockaddrIB":     {uapi.Size[sockaddrIB](), 48},
		"connParam":      {uapi.Size[connParam](), 272},
		"udParam":        {uapi.Size[udParam](), 304},
		"connect":        {uapi.Size[connect](), 288},
		"accept":         {uapi.Size[accept](), 296},
		"reject":         {uapi.Size[reject](), 264},
		"joinIP":         {uapi.Size[joinIP](), 48},
		"join":           {uapi.Size[join](), 152},
		"eventResp":      {uapi.Size[eventResp](), 336},
		"setOption":      {uapi.Size[setOption](), 24},
		"migrateID":      {uapi.Size[migrateID](), 16},
		"qpAttr":         {uapi.Size[qpAttr](), 144},
	} {
		if v[0] != v[1] {
			t.Errorf("%s has %d bytes, %d in rdma_user_cm.h", name, v[0], v[1])
		}
	}
}

// TestGolden writes the bytes of commands by hand and reads the answers by offset.
func TestGolden(t *testing.T) {
	s := world(t)
	p := newProg(t, s, "a")
	le := binary.LittleEndian
	create := []byte{
		0, 0, 0, 0, 24, 0, 4, 0, // CREATE_ID, in 24, out 4
		0xef, 0xbe, 0, 0, 0, 0, 0, 0, // uid
		0, 0x10, 1, 0, 0, 0, 0, 0, // response
		0x06, 0x01, 2, 0, 0, 0, 0, 0, // TCP, RC
	}
	for want := range uint32(2) {
		p.must(p.raw(create))
		if got := le.Uint32(p.mem[respAt-base:]); got != want {
			t.Fatalf("id %d, want %d", got, want)
		}
	}
	resolve := make([]byte, 8+64)
	copy(resolve, []byte{3, 0, 0, 0, 64, 0, 0, 0})
	copy(resolve[8+28:], []byte{2, 0, 0x1b, 0x58, 10, 0, 0, 1}) // AF_INET, port 7000, 10.0.0.1
	le.PutUint32(resolve[8+56:], 1)
	le.PutUint32(resolve[8+60:], 2000)
	p.must(p.raw(resolve))
	get := []byte{12, 0, 0, 0, 8, 0, 0x50, 1, 0, 0x10, 1, 0, 0, 0, 0, 0}
	p.must(p.raw(get))
	if r := p.mem[respAt-base:]; le.Uint64(r) != 0xbeef || le.Uint32(r[8:]) != 1 || le.Uint32(r[12:]) != 0 ||
		le.Uint32(r[16:]) != 0 {
		t.Errorf("ADDR_RESOLVED is % x", r[:20])
	}
	p.must(p.raw([]byte{4, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0xd0, 7, 0, 0})) // RESOLVE_ROUTE of id 1
	p.must(p.raw(get))
	p.must(p.raw([]byte{5, 0, 0, 0, 16, 0, 208, 0, 0, 0x10, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0})) // QUERY_ROUTE
	r := p.mem[respAt-base:]
	guid := s.f.Devices[0].Config.NodeGUID.Bytes()
	gid := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}
	for what, v := range map[string][2][]byte{
		"guid":      {r[:8], guid[:]},
		"dgid":      {r[8:24], gid},
		"sgid":      {r[24:40], gid},
		"lids":      {r[40:44], {0, 0, 0, 0}},
		"pkey":      {r[60:62], {0xff, 0xff}},
		"mtu":       {r[56:60], {3, 0, 0, 0}},
		"hop limit": {r[62:63], {64}},
		"dst":       {r[164:172], {2, 0, 0x1b, 0x58, 10, 0, 0, 1}},
		"src":       {append(bytes.Clone(r[136:138]), r[140:144]...), {2, 0, 10, 0, 0, 1}},
		"paths":     {r[192:196], {1, 0, 0, 0}},
		"port":      {r[196:197], {1}},
		"device":    {r[200:204], {0xff, 0xff, 0xff, 0xff}},
	} {
		if !bytes.Equal(v[0], v[1]) {
			t.Errorf("%s % x, want % x", what, v[0], v[1])
		}
	}
	if port := binary.BigEndian.Uint16(r[138:]); port < ephemeralLow || port > ephemeralHigh {
		t.Errorf("source port %d is none of %d to %d", port, ephemeralLow, ephemeralHigh)
	}
	p.must(p.raw([]byte{1, 0, 0, 0, 16, 0, 4, 0, 0, 0x10, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0})) // DESTROY_ID
	if got := le.Uint32(p.mem[respAt-base:]); got != 2 {
		t.Errorf("%d events reported, want 2", got)
	}
	p.exit()
	idle(t, s)
	if !p.over {
		t.Error("the pipe stays open after the last close")
	}
}

func TestHandshake(t *testing.T) {
	for _, addr := range []string{"10.0.0.1:7000", "10.0.0.2:7000", "[fd00::2]:7000", "127.0.0.1:7000", "[::1]:7000",
		"192.0.2.1:7000"} {
		t.Run(addr, func(t *testing.T) {
			s := world(t)
			c, v := newProg(t, s, "c"), newProg(t, s, "v")
			l := v.listen(0x1, psTCP, addr, 4)
			ci := c.resolve(0xc1, psTCP, addr)

			if a := c.attr(ci, hca.Init); a.Mask != 0x39 || a.State != 1 || a.Port != 1 || a.Access != 0 {
				t.Errorf("INIT before a connection: %+v", a)
			}
			c.must(cmd(c, 6, connect{Param: param(0x111, "hello"), ID: ci, ECE: ece{7, 8}}, 0))
			ev := v.event(evConnectRequest)
			req := v.conn(ev)
			if ev.UID != 1 || ev.ID == l || ev.ECE != (ece{7, 8}) || req.QPNum != 0x111 || req.Len != 56 ||
				string(req.Private[:7]) != "hello\x00\x00" ||
				req.RespRes != 5 || req.InitDepth != 3 || req.FlowControl != 1 || req.Retry != 7 || req.RNRRetry != 6 {
				t.Fatalf("CONNECT_REQUEST %+v", ev)
			}
			vi := ev.ID
			v.must(cmd(v, 5, query{respAt, vi, 0}, 208))
			route := answer[queryRouteResp](v)
			if want := sockaddr(addr); route.Src != want || route.NumPaths != 1 || route.Port != 1 {
				t.Errorf("the new id's route %+v", route)
			}
			v.must(cmd(v, 8, accept{UID: 0x51, Param: param(0x222, "welcome"), ID: vi, ECE: ece{7, 9}}, 0))
			ev = c.event(evConnectResponse)
			rep := c.conn(ev)
			if ev.UID != 0xc1 || ev.ID != ci || ev.ECE != (ece{7, 9}) || rep.QPNum != 0x222 || rep.Len != 196 ||
				string(rep.Private[:8]) != "welcome\x00" ||
				rep.RespRes != 5 || rep.InitDepth != 3 || rep.RNRRetry != 6 || rep.Retry != 0 {
				t.Fatalf("CONNECT_RESPONSE %+v", ev)
			}
			v.quiet()
			ca, va := c.attr(ci, hca.RTR), v.attr(vi, hca.RTR)
			for _, a := range []qpAttr{ca, va} {
				// STATE, AV, PATH_MTU, RQ_PSN, MAX_DEST_RD_ATOMIC, MIN_RNR_TIMER, DEST_QPN
				if a.Mask != 1|1<<7|1<<8|1<<12|1<<15|1<<17|1<<20 || a.PathMTU != 3 || a.AH.IsGlobal != 1 ||
					a.AH.PortNum != 1 || a.AH.GRH.HopLimit != 64 {
					t.Errorf("RTR %+v", a)
				}
			}
			if ca.DestQPN != 0x222 || va.DestQPN != 0x111 || ca.MaxDestRdAtomic != 5 || va.MaxDestRdAtomic != 3 {
				t.Errorf("RTR of the client %+v, of the server %+v", ca, va)
			}
			if c2, v2 := s.ids.slots[ci], s.ids.slots[vi]; ca.AH.GRH.DGID != (*v2).local.gid ||
				va.AH.GRH.DGID != (*c2).local.gid {
				t.Error("the ends' addresses do not lead to each other")
			}
			cs, vs := c.attr(ci, hca.RTS), v.attr(vi, hca.RTS)
			// STATE, TIMEOUT, RETRY_CNT, RNR_RETRY, MAX_QP_RD_ATOMIC, SQ_PSN
			if m := uint32(1 | 1<<9 | 1<<10 | 1<<11 | 1<<13 | 1<<16); cs.Mask != m || vs.Mask != m {
				t.Errorf("RTS masks %#x and %#x, want %#x", cs.Mask, vs.Mask, m)
			}
			if cs.SQPSN != va.RQPSN || vs.SQPSN != ca.RQPSN || cs.Timeout != 19 || cs.RetryCnt != 7 ||
				cs.RNRRetry != 6 || cs.MaxRdAtomic != 3 || vs.MaxRdAtomic != 5 {
				t.Errorf("RTS of the client %+v, of the server %+v", cs, vs)
			}
			if a := c.attr(ci, hca.Init); a.Mask != 0x39 || a.Access != 2|4|8 {
				t.Errorf("INIT of a connection: %+v", a)
			}
			c.must(cmd(c, 8, accept{ID: ci}, 0))
			ev = v.event(evEstablished)
			if ev.UID != 0x51 || ev.ID != vi || ev.Param != [304]byte{} {
				t.Errorf("ESTABLISHED %+v", ev)
			}
			if e := cmd(c, 8, accept{ID: ci}, 0); e != unix.EINVAL {
				t.Errorf("a second RTU: %v", e)
			}
			c.must(cmd(c, 10, idOnly{ci}, 0))
			if ev = v.event(evDisconnected); ev.Status != 0 {
				t.Errorf("DISCONNECTED with status %d", ev.Status)
			}
			c.quiet()
			v.must(cmd(v, 10, idOnly{vi}, 0))
			c.event(evDisconnected)
			v.quiet()
			c.must(cmd(c, 1, destroyID{Response: respAt, ID: ci}, 4))
			if n := answer[uint32](c); n != 4 {
				t.Errorf("%d events of the client's id reported, want 4", n)
			}
			v.must(cmd(v, 1, destroyID{Response: respAt, ID: vi}, 4))
			if n := answer[uint32](v); n != 2 {
				t.Errorf("%d events of the server's id reported, want 2", n)
			}
			v.must(cmd(v, 1, destroyID{Response: respAt, ID: l}, 4))
			if n := answer[uint32](v); n != 1 {
				t.Errorf("%d events of the listening id reported, want 1", n)
			}
			c.exit()
			v.exit()
			idle(t, s)
		})
	}
}
