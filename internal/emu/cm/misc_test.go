//go:build linux

package cm

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/emu/config"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
	"github.com/pureverbs/pureverbs/internal/emu/uapi"
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
		{psTCP, "[fe80::1]:7002", nil, unix.EINVAL}, // link-local without interface
		{psTCP, "[fe80::1%7]:7002", nil, 0},
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

// option sets one, its value being beside the answers.
func (p *prog) option(i, level, name uint32, v []byte) unix.Errno {
	p.t.Helper()
	copy(p.mem[0x2000:], v)
	return cmd(p, 14, setOption{base + 0x2000, i, level, name, uint32(len(v))}, 0)
}

func TestOptions(t *testing.T) {
	s, p, v := pair(t)
	i := p.create(1, psTCP)
	on, off := []byte{1, 0, 0, 0}, []byte{0, 0, 0, 0}
	for _, c := range []struct {
		level, name uint32
		v           []byte
		want        unix.Errno
	}{
		{0, 0, []byte{0x68}, 0}, {0, 0, on, unix.EINVAL},
		{0, 1, on, 0}, {0, 1, []byte{1}, unix.EINVAL},
		{0, 2, off, 0}, {0, 2, nil, unix.EINVAL},
		{0, 3, []byte{14}, 0}, {0, 3, on, unix.EINVAL},
		{0, 4, on, unix.ENOSYS}, {7, 0, on, unix.ENOSYS}, {1, 0, on, unix.ENOSYS},
		{1, 1, nil, unix.EINVAL}, {1, 1, make([]byte, 71), unix.EINVAL}, {1, 1, make([]byte, 72), unix.EINVAL},
	} {
		if e := p.option(i, c.level, c.name, c.v); e != c.want {
			t.Errorf("option %d/%d of %d bytes: %v, want %v", c.level, c.name, len(c.v), e, c.want)
		}
	}
	u := p.create(1, psUDP)
	if e := p.option(u, 0, 3, []byte{14}); e != unix.EINVAL {
		t.Errorf("acknowledge timeout of a datagram id: %v", e)
	}
	for name, c := range map[string]setOption{"huge": {base, i, 0, 0, 1 << 31}, "pointer": {1, i, 0, 0, 1}} {
		if e := cmd(p, 14, c, 0); e != map[string]unix.Errno{"huge": unix.EINVAL, "pointer": unix.EFAULT}[name] {
			t.Errorf("%s: %v", name, e)
		}
	}
	v.listen(1, psTCP, "10.0.0.1:7000", 0)
	p.must(cmd(p, 3, resolveIP{Dst: sockaddr("10.0.0.1:7000"), ID: i}, 0))
	p.event(evAddrResolved)
	path := make([]byte, 72)
	binary.LittleEndian.PutUint32(path, 1|2|8|32)
	p.must(p.option(i, 1, 1, append(make([]byte, 72), path...)))
	p.event(evRouteResolved)
	p.dial(i, "")
	vi := v.event(evConnectRequest).ID
	v.must(cmd(v, 8, accept{UID: 9, Param: param(1, ""), ID: vi}, 0))
	p.event(evConnectResponse)
	if a := p.attr(i, hca.RTR); a.AH.GRH.TrafficClass != 0x68 {
		t.Errorf("RTR with a type of service %+v", a.AH)
	}
	if a := p.attr(i, hca.RTS); a.Timeout != 14 {
		t.Errorf("RTS with timeout %d, want 14", a.Timeout)
	}
	// NOTIFY says that data came before the RTU.
	if e := cmd(v, 15, idAndNumber{vi, 1}, 0); e != unix.EINVAL {
		t.Errorf("notify of another event: %v", e)
	}
	v.must(cmd(v, 15, idAndNumber{vi, 4}, 0))
	v.event(evEstablished)
	if e := cmd(v, 15, idAndNumber{vi, 4}, 0); e != unix.EISCONN {
		t.Errorf("notify twice: %v", e)
	}
	p.must(cmd(p, 8, accept{ID: i}, 0))
	v.quiet()
	p.must(cmd(p, 24, writeEvent{ID: i, Event: evUser, Status: 5, Param: [304]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}}, 0))
	if ev := p.status(evUser, 5); ev.UID != 1 || ev.Param != [304]byte{1, 2, 3, 4, 5, 6, 7, 8} {
		t.Errorf("event of the program %+v", ev)
	}
	if e := cmd(p, 24, writeEvent{ID: i, Event: evEstablished}, 0); e != unix.EINVAL {
		t.Errorf("a forged event: %v", e)
	}
	p.exit()
	v.exit()
	idle(t, s)
}

func TestQuery(t *testing.T) {
	s, p, _ := pair(t)
	i := p.create(1, psTCP)
	var ra resolveAddr
	ra.ID, ra.DstSize = i, 28
	a := sockaddr("[fd00::2]:7000")
	copy(ra.Dst[:], a[:])
	ra.Reserved = 1
	if e := cmd(p, 21, ra, 0); e != unix.EINVAL {
		t.Errorf("reserved field: %v", e)
	}
	ra.Reserved = 0
	p.must(cmd(p, 21, ra, 0))
	p.event(evAddrResolved)
	p.must(cmd(p, 19, query{respAt, i, 0}, 280))
	r := answer[queryAddrResp](p)
	if r.SrcSize != 28 || r.DstSize != 28 || [28]byte(r.Dst[:28]) != a || r.PKey != [2]byte{0xff, 0xff} ||
		r.DeviceIndex != noIndex || r.NodeGUID != s.f.Devices[1].Config.NodeGUID.Bytes() {
		t.Errorf("addresses %+v", r)
	}
	p.must(cmd(p, 19, query{respAt, i, 2}, 280))
	gid := a[8:24]
	r = answer[queryAddrResp](p)
	sib := uapi.Decode[sockaddrIB](r.Dst[:])
	if r.DstSize != 48 || sib.Family != 27 || string(sib.Addr[:]) != string(gid) ||
		sib.SID != [8]byte{0, 0, 0, 0, 1, 6, 0x1b, 0x58} {
		t.Errorf("GIDs %+v", sib)
	}
	p.must(cmd(p, 19, query{respAt, i, 1}, 440))
	if n := answer[uint32](p); n != 0 {
		t.Errorf("%d paths before a route", n)
	}
	p.must(cmd(p, 4, idAndNumber{i, 0}, 0))
	p.event(evRouteResolved)
	p.must(cmd(p, 19, query{respAt, i, 1}, 440))
	rec := p.mem[respAt-base:][:80]
	if rec[0] != 1 || rec[8] != 43 || string(rec[24:40]) != string(gid) || rec[16+47] != 64 || rec[16+49] != 0x81 ||
		rec[16+54] != 0x83 || rec[16+56] != 0x92 {
		t.Errorf("path % x", rec)
	}
	for out, want := range map[int]unix.Errno{7: unix.ENOSPC, 8: 0, 80: 0} {
		if e := cmd(p, 19, query{respAt, i, 1}, out); e != want {
			t.Errorf("path with room for %d bytes: %v, want %v", out, e, want)
		}
	}
	for opt, want := range map[uint32]unix.Errno{0: unix.ENOSPC, 3: unix.ENOSYS} {
		if e := cmd(p, 19, query{respAt, i, opt}, 271); e != want {
			t.Errorf("query %d with 271 bytes: %v, want %v", opt, e, want)
		}
	}
	// The probe for AF_IB tells librdmacm to use the older commands.
	var ib bind
	ib.ID, ib.Size, ib.Addr[0] = p.create(1, psIB), 48, 27
	if e := cmd(p, 20, ib, 0); e != unix.EAFNOSUPPORT {
		t.Errorf("AF_IB: %v", e)
	}
	s.IB = true
	p.must(cmd(p, 20, ib, 0))
	for _, opt := range []uint32{0, 2} {
		p.must(cmd(p, 19, query{respAt, ib.ID, opt}, 280))
		if r = answer[queryAddrResp](p); r.SrcSize != 48 || r.Src[0] != 27 || r.NodeGUID != [8]byte{} {
			t.Errorf("query %d of AF_IB %+v", opt, r)
		}
	}
	if e := cmd(p, 7, idAndNumber{ib.ID, 0}, 0); e != unix.EAFNOSUPPORT {
		t.Errorf("listening at AF_IB: %v", e)
	}
	ra = resolveAddr{ID: ib.ID, DstSize: 48}
	ra.Dst[0] = 27
	if e := cmd(p, 21, ra, 0); e != unix.EAFNOSUPPORT {
		t.Errorf("resolving AF_IB: %v", e)
	}
	ib.ID, ib.Addr[8] = p.create(1, psIB), 1
	if e := cmd(p, 20, ib, 0); e != unix.EAFNOSUPPORT {
		t.Errorf("an AF_IB address: %v", e)
	}
}

func TestInfiniBand(t *testing.T) {
	s, c, v := pair(t)
	for n, d := range s.f.Devices {
		pc := d.Ports[0].Config
		pc.LinkLayer, pc.LID, pc.PKeys = config.InfiniBand, uint16(n+1), []uint16{0x8001}
		pc.GIDs = []config.GID{{GID: config.Addr{0xfe, 0x80, 15: byte(n + 1)}}}
	}
	ci, _ := connected(t, c, v, "127.0.0.1:7000")
	if a := c.attr(ci, hca.RTR); a.AH.IsGlobal != 0 || a.AH.DLID != 1 {
		t.Errorf("RTR %+v", a.AH)
	}
	i := c.create(1, psUDP)
	c.must(cmd(c, 3, resolveIP{Dst: sockaddr("127.0.0.1:1"), ID: i}, 0))
	c.event(evAddrResolved)
	for addr, want := range map[string][16]byte{
		"239.1.2.3:0":     {0xff, 0x12, 0x40, 0x01, 0x80, 1, 12: 15, 1, 2, 3},
		"[ff15:1::2:3]:0": {0xff, 0x15, 0x60, 0x01, 0x80, 1, 13: 2, 15: 3},
	} {
		c.must(cmd(c, 16, joinIP{Response: respAt, UID: 3, Addr: sockaddr(addr), ID: i}, 4))
		if u := c.ud(c.event(evMulticastJoin)); u.AH.GRH.DGID != want || u.AH.DLID < 0xc000 {
			t.Errorf("group of %s %x", addr, u.AH.GRH.DGID)
		}
	}
}

func TestXRC(t *testing.T) {
	_, c, v := pair(t)
	create := func(p *prog, typ uint8) uint32 {
		p.must(cmd(p, 0, createID{UID: 1, Response: respAt, PS: psIB, QPType: typ}, 4))
		return answer[uint32](p)
	}
	l := create(v, uint8(hca.XRCRecv))
	v.must(cmd(v, 2, bindIP{Addr: sockaddr("10.0.0.1:7000"), ID: l}, 0))
	v.must(cmd(v, 7, idAndNumber{l, 0}, 0))
	dial := func(typ hca.QPType) uint32 {
		i := create(c, uint8(typ))
		c.must(cmd(c, 3, resolveIP{Dst: sockaddr("10.0.0.1:7000"), ID: i}, 0))
		c.event(evAddrResolved)
		c.must(cmd(c, 4, idAndNumber{i, 0}, 0))
		c.event(evRouteResolved)
		c.dial(i, "")
		return i
	}
	dial(hca.RC)
	c.status(evRejected, rejConsumer)
	i := dial(hca.XRCSend)
	vi := v.event(evConnectRequest).ID
	v.must(cmd(v, 8, accept{UID: 9, Param: param(1, ""), ID: vi}, 0))
	c.event(evConnectResponse)
	const rtr, rts = 1 | 1<<7 | 1<<8 | 1<<12 | 1<<20, 1 | 1<<16 | 1<<9
	for _, x := range []struct {
		p    *prog
		i    uint32
		st   hca.QPState
		mask uint32
	}{{c, i, hca.RTR, rtr}, {v, vi, hca.RTR, rtr | 1<<15 | 1<<17}, {c, i, hca.RTS, rts | 1<<10 | 1<<11 | 1<<13},
		{v, vi, hca.RTS, rts}} {
		if a := x.p.attr(x.i, x.st); a.Mask != x.mask {
			t.Errorf("%s %v: mask %#x, want %#x", x.p.name, x.st, a.Mask, x.mask)
		}
	}
}

func TestHostile(t *testing.T) {
	s, p, q := pair(t)
	i := p.create(1, psTCP)
	for what, c := range map[string]struct {
		b    []byte
		want unix.Errno
	}{
		"short header":      {make([]byte, 7), unix.EINVAL},
		"unknown":           {[]byte{25, 0, 0, 0, 0, 0, 0, 0}, unix.EINVAL},
		"GET_OPTION":        {[]byte{13, 0, 0, 0, 0, 0, 0, 0}, unix.ENOSYS},
		"body beyond write": {[]byte{1, 0, 0, 0, 1, 0, 4, 0}, unix.EINVAL},
		"no room":           {[]byte{0, 0, 0, 0, 0, 0, 3, 0}, unix.ENOSPC},
		"short connect":     {append([]byte{6, 0, 0, 0, 0x17, 1, 0, 0}, make([]byte, 279)...), unix.EINVAL},
		"short accept":      {append([]byte{8, 0, 0, 0, 0x1f, 1, 0, 0}, make([]byte, 287)...), unix.EINVAL},
	} {
		clear(p.mem)
		if e := p.raw(c.b); e != c.want {
			t.Errorf("%s: %v, want %v", what, e, c.want)
		}
	}
	s.f.Lock()
	s.execute(p, p.fl, 0, 8)
	if p.e != unix.EFAULT {
		t.Errorf("header at 0: %v", p.e)
	}
	p.mem[len(p.mem)-8], p.mem[len(p.mem)-2] = 1, 4 // DESTROY_ID whose body ends beyond the memory
	s.execute(p, p.fl, base+uint64(len(p.mem))-8, 8)
	if p.e != unix.EFAULT {
		t.Errorf("body beyond the memory: %v", p.e)
	}
	s.f.Unlock()
	if e := cmd(p, 0, createID{UID: 1, Response: 8, PS: psTCP}, 4); e != unix.EFAULT || s.ids.used != 1 {
		t.Errorf("answer to a bad address: %v, %d ids", e, s.ids.used)
	}
	if e := cmd(p, 0, createID{UID: 1, Response: respAt, PS: 5}, 4); e != unix.EINVAL {
		t.Errorf("port space 5: %v", e)
	}
	// Ids that are not there, another's, without a device.
	for num := range uint32(len(commands)) {
		for id, want := range map[uint32]unix.Errno{1 << 30: unix.ENOENT, i: unix.EINVAL} {
			b := make([]byte, 296)
			var at int
			switch num {
			case 0, 12, 13, 17, 18, 23:
				continue
			case 1, 5, 11, 19:
				at = 8
			case 2:
				at, b[8] = 36, unix.AF_INET
			case 3:
				at, b[28] = 56, unix.AF_INET
			case 4, 7, 9, 10, 15:
			case 6:
				at, b[271] = 272, 1
			case 8:
				at = 280
			case 14:
				at = 8
			case 16:
				at, b[16] = 44, unix.AF_INET
			case 20:
				b[4], b[8] = 16, unix.AF_INET
			case 21:
				b[10], b[16+128] = 16, unix.AF_INET
			case 22:
				at, b[20], b[24] = 16, 16, unix.AF_INET
			case 24:
				b[8] = evUser
			}
			binary.LittleEndian.PutUint32(b[at:], id)
			h := header{Cmd: num, In: 296, Out: 400}
			if e := q.raw(append(uapi.Bytes(&h), b...)); e != want {
				t.Errorf("%s of id %d: %v, want %v", commands[num].name, id, e, want)
			}
		}
	}
	// Wrong states.
	for num, body := range map[uint32]idAndNumber{4: {i, 0}, 9: {i, 0}, 10: {i, 0}, 11: {i, 0}, 15: {i, 4}} {
		var b [296]byte
		copy(b[:], uapi.Bytes(&body))
		if num == 11 {
			clear(b[:])
			binary.LittleEndian.PutUint32(b[8:], i)
		}
		if e := cmd(p, num, b, 400); e != unix.EINVAL {
			t.Errorf("%s of a new id: %v", commands[num].name, e)
		}
	}
	// More ids than there may be.
	for s.ids.used < maxIDs {
		p.create(1, psTCP)
	}
	if e := cmd(p, 0, createID{UID: 1, Response: respAt, PS: psTCP}, 4); e != unix.ENOMEM {
		t.Errorf("one id too many: %v", e)
	}
	p.must(cmd(p, 1, destroyID{Response: respAt, ID: 77}, 4))
	if n := q.create(1, psTCP); n != 77 {
		t.Errorf("the free number 77 is not taken up: %d", n)
	}
	p.exit()
	q.exit()
	idle(t, s)
}

func TestTrace(t *testing.T) {
	s := world(t)
	var got []Record
	s.Trace = func(r Record) { got = append(got, r) }
	p := newProg(t, s, "p")
	i := p.create(1, psTCP)
	cmd(p, 10, idOnly{i}, 0)
	p.must(cmd(p, 3, resolveIP{Dst: sockaddr("10.0.0.1:7000"), ID: i}, 0))
	want := []Record{{TID: 1, Name: "CM_CREATE_ID"}, {TID: 1, Name: "CM_DISCONNECT", Errno: unix.EINVAL},
		{Name: "EVENT ADDR_RESOLVED"}, {TID: 1, Name: "CM_RESOLVE_IP"}}
	if !slices.Equal(got, want) {
		t.Errorf("trace %+v, want %+v", got, want)
	}
}

// TestRandom lets programs do whatever they like and wants nothing to remain, and the signals to agree with the queues.
func TestRandom(t *testing.T) {
	established := 0
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			established += random(t, rand.New(rand.NewPCG(seed, 1)), 3000)
		})
	}
	if established < 20 {
		t.Errorf("%d connections came about: the test tests little", established)
	}
}

type id_ = id

// random does some steps and counts the connections that came about.
func random(t *testing.T, r *rand.Rand, steps int) (established int) {
	s := world(t)
	var ps []*prog
	for n := range 3 {
		p := newProg(t, s, fmt.Sprint("p", n))
		p.fds[4] = fmt.Sprint("p", (n+1)%3)
		ps = append(ps, p)
	}
	addrs := []string{"10.0.0.1:7000", "10.0.0.2:7000", "127.0.0.1:7001", "0.0.0.0:7002", "[fd00::1]:7000",
		"239.0.0.1:1"}
	for range steps {
		p := ps[r.IntN(len(ps))]
		// Mostly one of its own ids, which are few.
		id, addr := uint32(r.IntN(s.ids.used+1)), sockaddr(addrs[r.IntN(len(addrs))])
		if own := slices.Collect(maps.Keys(p.fl.ids)); len(own) > 0 && r.IntN(8) > 0 {
			slices.SortFunc(own, func(a, b *id_) int { return int(a.num) - int(b.num) })
			id = own[r.IntN(len(own))].num
		}
		switch r.IntN(18) {
		case 0, 1:
			p.create(uint64(r.IntN(9)), []uint16{psTCP, psTCP, psUDP}[r.IntN(3)])
		case 2:
			if len(p.fl.ids) < 4 {
				break
			}
			cmd(p, 1, destroyID{Response: respAt, ID: id}, 4)
		case 3:
			cmd(p, 2, bindIP{Addr: addr, ID: id}, 0)
		case 4:
			cmd(p, 3, resolveIP{Dst: addr, ID: id, Timeout: 1}, 0)
		case 5:
			cmd(p, 4, idAndNumber{id, 1}, 0)
		case 6, 7:
			cmd(p, 3, resolveIP{Dst: addr, ID: id, Timeout: 1}, 0)
			cmd(p, 4, idAndNumber{id, 1}, 0)
			cmd(p, 6, connect{Param: param(1, "x"), ID: id}, 0)
		case 8:
			cmd(p, 7, idAndNumber{id, uint32(r.IntN(3))}, 0)
		case 9, 10:
			cmd(p, 6, connect{Param: param(1, "x"), ID: id}, 0)
		case 11, 12:
			c := accept{UID: 5, ID: id}
			if r.IntN(2) == 0 {
				c.Param = param(1, "y")
			}
			cmd(p, 8, c, 0)
		case 13:
			cmd(p, []uint32{9, 10}[r.IntN(2)], reject{ID: id}, 0)
		case 14, 15: // fetch what there is, and sometimes answer as one should
			for range 3 {
				if cmd(p, 12, getEvent{respAt}, 336) != 0 {
					break
				}
				ev := answer[eventResp](p)
				if ev.Event == evEstablished {
					established++
				}
				if r.IntN(2) == 0 && (ev.Event == evConnectRequest || ev.Event == evConnectResponse) {
					c := accept{UID: 5, ID: ev.ID}
					if ev.Event == evConnectRequest {
						c.Param = param(1, "y")
					}
					cmd(p, 8, c, 0)
				}
			}
		case 16:
			cmd(p, 16, joinIP{Response: respAt, UID: 3, Addr: addr, ID: id}, 4)
			cmd(p, 17, destroyID{Response: respAt, ID: uint32(r.IntN(3))}, 4)
		case 17:
			if r.IntN(4) == 0 {
				cmd(p, 18, migrateID{respAt, id, 4}, 4)
			} else if r.IntN(80) == 0 {
				s.f.Lock()
				s.DeviceRemoved(s.f.Devices[r.IntN(2)])
				s.f.Unlock()
			}
		}
		for _, p := range ps {
			if p.sig != len(p.fl.events)+p.fl.owed {
				t.Fatalf("%s: %d bytes in the pipe for %d events, %d owed", p.name, p.sig, len(p.fl.events), p.fl.owed)
			}
		}
	}
	for _, p := range ps {
		p.exit()
	}
	idle(t, s)
	return established
}

func FuzzWrite(f *testing.F) {
	for n := range len(commands) {
		f.Add([]byte{byte(n), 0, 0, 0, 64, 0, 80, 1, 0, 0x10, 1, 0, 0, 0, 0, 0, 2, 0, 0x1b, 0x58, 10, 0, 0, 1})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, p, v := pair(t)
		ci, _ := connected(t, p, v, "10.0.0.1:7000")
		p.resolve(1, psTCP, "10.0.0.1:7000")
		p.must(cmd(p, 10, idOnly{ci}, 0))
		for len(data) > 0 { // each command has a byte that says how long it is
			n := min(int(data[0])+8, len(data))
			p.raw(data[:n])
			v.raw(data[:n])
			data = data[n:]
		}
		p.exit()
		v.exit()
		idle(t, s)
	})
}

// TestMachine asks the real machine for its addresses and routes.
func TestMachine(t *testing.T) {
	nowhere := netip.MustParseAddr("203.0.113.77") // kept for documentation
	if !hostAddr(netip.MustParseAddr("127.0.0.1")) || hostAddr(nowhere) {
		t.Error("127.0.0.1 is not local, or 203.0.113.77 is")
	}
	for _, ip := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
		if e := route(ip); e != 0 && !(ip.Is6() && e == unix.EADDRNOTAVAIL) { // IPv6 may be off
			t.Errorf("no route to %s: %v", ip, e)
		}
	}
	if e := route(netip.MustParseAddr("255.255.255.255")); e == 0 {
		t.Error("a route to the broadcast address")
	}
}
