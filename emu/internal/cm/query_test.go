//go:build linux

package cm

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

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
	ra = resolveAddr{ID: ib.ID, DstSize: 48}
	ra.Dst[0] = 27
	if e := cmd(p, 21, ra, 0); e != unix.EAFNOSUPPORT {
		t.Errorf("resolving AF_IB: %v", e)
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
	pc := s.f.Devices[0].Ports[0].Config
	pc.NeedsGRH = true
	if a := c.attr(ci, hca.RTR).AH; a.IsGlobal != 1 || a.DLID != 1 || a.GRH.DGID[15] != 1 || a.GRH.HopLimit == 0 {
		t.Errorf("RTR where the port requires a GRH: %+v", a)
	}
	pc.NeedsGRH = false
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
