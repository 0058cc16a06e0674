//go:build linux

package verbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// What may be changed of a QP at work, and what the adapter refuses.
func TestDevxChanges(t *testing.T) {
	p := openDevX(t, "mlx5_0,lag=2")
	out, e := p.general(prm(uapi.OpQueryLAG, 16), 16)
	if p.must(e); lagState.Get(out) != 1 || lagRemap[0].Get(out) != 1 || lagRemap[1].Get(out) != 2 {
		t.Errorf("query_lag of a bond: % x", out)
	}
	pd, cq := p.pd(), p.cq(10, -1)
	h, qpn := p.qp(pd, cq)
	qp := p.x.Object(h).(*hca.QP)
	if qp.Extra.LAGPort != 1 {
		t.Errorf("the first QP is given port %d", qp.Extra.LAGPort)
	}
	change := func(fields ...any) ([]byte, unix.Errno) {
		_, out, e := p.object(2, h, prm(uapi.OpRts2RtsQP, 464, append(fields, uapi.CmdNum, int(qpn))...), 16)
		return out, e
	}
	out, e = change(qpMask, optLAGPort, qpcLAGPort, 2)
	p.wantStatus("a QP in RESET", out, e, uapi.StatusBadQPState)
	qp.State = hca.RTS
	_, e = change(qpMask, optLAGPort, qpcLAGPort, 2)
	p.must(e)
	_, e = change(qpMoreMask, moreUDPPort, pathUDPPort, 0xc001)
	p.must(e)
	_, out, e = p.object(3, h, prm(uapi.OpQueryQP, 16, uapi.CmdNum, int(qpn)), 272)
	if p.must(e); qpcLAGPort.Get(out) != 2 || pathUDPPort.Get(out) != 0xc001 || qpcState.Get(out) != 3 ||
		qpcSendCQ.Get(out) != uint64(qp.SendCQ.Num) || qpcLogSQ.Get(out) != logOf(qp.SQ.Count) {
		t.Errorf("query_qp: port %d, UDP port %#x, state %d", qpcLAGPort.Get(out), pathUDPPort.Get(out),
			qpcState.Get(out))
	}
	for what, fields := range map[string][]any{
		"port 3 of a bond of two":       {qpMask, optLAGPort, qpcLAGPort, 3},
		"an unknown bit":                {qpMask, 1},
		"another unknown bit":           {qpMoreMask, 1 << 5},
		"a stream of what is no DCI":    {qpMoreMask, moreStream, qpExtends, 1},
		"a stream without an extension": {qpMoreMask, moreStream},
	} {
		out, e := change(fields...)
		p.wantStatus(what, out, e, uapi.StatusBadParam)
	}
	_, out, e = p.object(3, h, prm(uapi.OpQueryDCT, 16, uapi.CmdNum, int(qpn)), 128)
	p.wantStatus("an RC QP as a DCT", out, e, uapi.StatusBadResource)
	_, out, e = p.object(2, h, prm(uapi.OpRst2InitQP, 272, uapi.CmdNum, int(qpn)), 16)
	p.wantStatus("a QP of verbs to INIT", out, e, uapi.StatusBadResource)

	raw, e := p.rawQP(pd, cq, 0)
	p.must(e)
	n := int(p.x.Object(raw).(*hca.QP).Num)
	modify := prm(uapi.OpModifyTIS, 192, uapi.CmdNum, n, tisMask, tisMaskLAGPort, tisNewLAGPort, 1)
	_, _, e = p.object(2, raw, modify, 16)
	p.must(e)
	_, out, e = p.object(3, raw, prm(uapi.OpQueryTIS, 16, uapi.CmdNum, n), 176)
	if p.must(e); tisLAGPort.Get(out) != 1 {
		t.Errorf("query_tis: port %d", tisLAGPort.Get(out))
	}
	_, out, e = p.object(2, raw, prm(uapi.OpModifyTIS, 192, uapi.CmdNum, n, tisMask, 1), 16)
	p.wantStatus("an unknown bit of a TIS", out, e, uapi.StatusBadParam)
	_, out, e = p.object(3, raw, prm(uapi.OpQueryQP, 16, uapi.CmdNum, n), 272)
	p.wantStatus("a raw packet QP as a QP", out, e, uapi.StatusBadResource)
}

func TestUmem(t *testing.T) {
	p := openDevX(t)
	_, start := p.room(8192, 4096)
	reg := func(addr, n, pages uint64, access int) (uint32, unix.Errno) {
		id, a := p.out(0x1004, 4)
		as, e := p.ioctl(0x1002, 0x1000, at(0x1000, 0, 0), at(0x1001, 8, addr), at(0x1002, 8, n),
			at(0x1003, 4, uint64(access)), at(0x1005, 8, pages), a)
		if e == 0 && hca.UmemNumbered(p.x, u32(id, 0)) == nil {
			t.Errorf("umem %d is not there", u32(id, 0))
		}
		return u32(as, 8), e
	}
	const any = ^uint64(4095)
	for _, c := range []struct {
		what           string
		addr, n, pages uint64
		access         int
		want           unix.Errno
	}{
		{"nothing", start, 0, any, 1, unix.EINVAL},
		{"around the address space", ^uint64(0), 2, any, 1, unix.EINVAL},
		{"an unknown right", start, 64, any, 1 << 9, unix.EINVAL},
		{"remote write alone", start, 64, any, 2, unix.EINVAL},
		{"no page size", start, 64, 0, 1, unix.EINVAL},
		{"pages of 64 bytes", start, 64, 64, 1, unix.EINVAL},
		{"no memory", 1 << 46, 64, any, 1, unix.EFAULT},
		{"a part of a page", start + 100, 64, any, 7, 0},
	} {
		_, e := reg(c.addr, c.n, c.pages, c.access)
		p.want(c.what, e, c.want)
	}
	h, e := reg(start, 8192, 1<<12, 1)
	p.must(e)
	u := p.x.Object(h).(*hca.Umem)
	u.Hold(1)
	_, e = p.ioctl(0x1002, 0x1001, at(0x1000, 0, uint64(h)))
	p.want("a umem in use", e, unix.EBUSY)
	u.Hold(-1)
	_, e = p.ioctl(0x1002, 0x1001, at(0x1000, 0, uint64(h)))
	p.want("a umem", e, 0)
	if l := hca.Leaked(p.x); len(l) != 1 || l[0] != "1 umem" {
		t.Errorf("not destroyed: %v", l)
	}
	q := open(t)
	q.getContext()
	_, start = q.room(4096, 4096)
	_, a := q.out(0x1004, 4)
	_, e = q.ioctl(0x1002, 0x1000, at(0x1000, 0, 0), at(0x1001, 8, start), at(0x1002, 8, 64), a)
	q.want("a umem without DevX", e, unix.EINVAL)
}
