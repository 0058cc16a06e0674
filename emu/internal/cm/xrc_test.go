//go:build linux

package cm

import (
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

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
