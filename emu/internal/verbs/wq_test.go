//go:build linux

package verbs

import (
	"testing"

	"golang.org/x/sys/unix"
)

// wqInit is what a test makes a WQ of, where that differs from one that is right.
type wqInit struct {
	typ, flags, drv, mask, stride, strides, count, shift int
	pd, cq                                               uint32
}

// wq sends create_wq by write() and returns the handle.
func (p *program) wq(i wqInit) (uint32, unix.Errno) {
	p.t.Helper()
	q := p.qpDriver(0)
	buf, db := q[:8], q[8:16]
	drv := le(buf, db, i.count, i.shift, 0x77, i.drv, i.mask, i.stride, i.strides, 0)
	resp, answer, e := p.cmd(0x80000000|52, le(0, i.typ, uint64(0xf00d), i.pd, i.cq, 8, 1, i.flags, 0), 24, drv, 8)
	if e != 0 {
		return 0, e
	}
	if u32(resp, 12) != 8 || u32(resp, 16) != 1 || u32(resp, 20) == 0 || u32(answer, 0) != 4 {
		p.t.Errorf("create_wq answers %x, %x", resp, answer)
	}
	return u32(resp, 8), 0
}

func (p *program) modifyWQ(drv []byte, words ...any) unix.Errno {
	p.t.Helper()
	_, _, e := p.cmd(0x80000000|53, le(words...), 0, drv, 0)
	return e
}

// table sends create_rwq_ind_tbl and returns the handle.
func (p *program) table(log int, wqs ...uint32) (uint32, unix.Errno) {
	p.t.Helper()
	b := le(0, log)
	for _, w := range wqs {
		b = append(b, le(w)...)
	}
	if len(b)%8 != 0 {
		b = append(b, 0, 0, 0, 0)
	}
	resp, _, e := p.cmd(0x80000000|55, b, 16, nil, 8)
	if e != 0 {
		return 0, e
	}
	return u32(resp, 8), 0
}

// rss sends create_qp with a table and returns the handle.
func (p *program) rss(
	pd, table uint32, typ uint8, fields uint64, function, size uint8, flags int,
) (uint32, unix.Errno) {
	p.t.Helper()
	drv := le(fields, function, size, make([]byte, 6), make([]byte, 128), 0, flags)
	resp, _, e := p.cmd(0x80000000|24, le(uint64(0xbeef), pd, 0, 0, 0, le(0, 0, 0, 0, 0), uint8(0), typ,
		uint8(0), uint8(0), 1, 0, table, 0), 40, drv, 40)
	if e != 0 {
		return 0, e
	}
	if u32(resp, 4) != 0 {
		p.t.Errorf("a QP with a table has number %#x", u32(resp, 4))
	}
	return u32(resp, 0), 0
}

func TestWQs(t *testing.T) {
	p := open(t)
	p.getContext()
	pd, cq := p.pd(), p.cq(64, -1)
	good := wqInit{count: 8, shift: 5, pd: pd, cq: cq}
	for _, c := range []struct {
		what string
		with func(*wqInit)
		want unix.Errno
	}{
		{"of another type", func(i *wqInit) { i.typ = 1 }, unix.EINVAL},
		{"with delay drop", func(i *wqInit) { i.flags = 1 << 2 }, unix.EOPNOTSUPP},
		{"with padding", func(i *wqInit) { i.flags = 1 << 3 }, unix.EOPNOTSUPP},
		{"with an unknown component", func(i *wqInit) { i.mask = 2 }, unix.EOPNOTSUPP},
		{"of small strides", func(i *wqInit) { i.mask, i.stride, i.strides = 1, 5, 9 }, unix.EINVAL},
		{"of large strides", func(i *wqInit) { i.mask, i.stride, i.strides = 1, 14, 9 }, unix.EINVAL},
		{"of few strides", func(i *wqInit) { i.mask, i.stride, i.strides = 1, 6, 8 }, unix.EINVAL},
		{"of many strides", func(i *wqInit) { i.mask, i.stride, i.strides = 1, 6, 17 }, unix.EINVAL},
		{"without entries", func(i *wqInit) { i.count = 0 }, unix.EINVAL},
		{"of three entries", func(i *wqInit) { i.count = 3 }, unix.EINVAL},
		{"of small entries", func(i *wqInit) { i.shift = 3 }, unix.EINVAL},
		{"without a PD", func(i *wqInit) { i.pd = 4711 }, unix.ENOENT},
		{"with a PD for its CQ", func(i *wqInit) { i.cq = pd }, unix.EINVAL},
	} {
		i := good
		c.with(&i)
		_, e := p.wq(i)
		p.want("create_wq "+c.what, e, c.want)
	}
	w, e := p.wq(good)
	p.want("create_wq", e, 0)
	drv := make([]byte, 8)
	const reset, ready, failed = 0, 1, 2
	for _, c := range []struct {
		what string
		drv  []byte
		req  []any
		want unix.Errno
	}{
		{"of nothing", drv, []any{0, w, 0, 0, 0, 0}, unix.EINVAL},
		{"of what is unknown", drv, []any{8, w, 0, 0, 0, 0}, unix.EINVAL},
		{"to no state", drv, []any{1, w, 3, 0, 0, 0}, unix.EINVAL},
		{"from a state that it is not in", drv, []any{3, w, ready, failed, 0, 0}, unix.EINVAL},
		{"from RESET to ERR", drv, []any{1, w, failed, 0, 0, 0}, unix.EINVAL},
		{"without a driver's part", nil, []any{1, w, ready, 0, 0, 0}, unix.EINVAL},
		{"with a component of the driver's", le(1, 0), []any{1, w, ready, 0, 0, 0}, unix.EOPNOTSUPP},
		{"of the padding", drv, []any{4, w, 0, 0, 8, 8}, unix.EOPNOTSUPP},
		{"of another object", drv, []any{1, pd, ready, 0, 0, 0}, unix.EINVAL},
		{"to RDY", drv, []any{1, w, ready, 0, 0, 0}, 0},
		{"of the VLAN", drv, []any{4, w, 0, 0, 1, 1}, 0},
		{"to ERR", drv, []any{3, w, failed, ready, 0, 0}, 0},
		{"from ERR to RDY", drv, []any{1, w, ready, 0, 0, 0}, unix.EINVAL},
		{"to RESET", drv, []any{1, w, reset, 0, 0, 0}, 0},
	} {
		p.want("modify_wq "+c.what, p.modifyWQ(c.drv, c.req...), c.want)
	}

	_, e = p.table(1, w)
	p.want("create_rwq_ind_tbl that lacks a handle", e, unix.ENOENT)
	_, e = p.table(0, pd)
	p.want("create_rwq_ind_tbl of a PD", e, unix.EINVAL)
	_, e = p.table(14, w)
	p.want("create_rwq_ind_tbl beyond the kernel", e, unix.EINVAL)
	one, e := p.table(0, w)
	p.want("create_rwq_ind_tbl", e, 0)
	four, e := p.table(2, w, w, w, w)
	p.want("create_rwq_ind_tbl of four", e, 0)
	_, _, e = p.cmd(0x80000000|54, le(0, w), 16, nil, 0)
	p.want("destroy_wq of a table", e, unix.EBUSY)

	for _, c := range []struct {
		what     string
		table    uint32
		typ      uint8
		fields   uint64
		function uint8
		size     uint8
		flags    int
		want     unix.Errno
	}{
		{"of type UD", four, 4, 3, 1, 40, 0, unix.EINVAL},
		{"without a table", 4711, 8, 3, 1, 40, 0, unix.ENOENT},
		{"with a short key", four, 8, 3, 1, 39, 0, unix.EINVAL},
		{"with a key that is too long", four, 8, 3, 1, 200, 0, unix.EINVAL},
		{"with another function", four, 8, 3, 2, 40, 0, unix.EOPNOTSUPP},
		{"of no fields", four, 8, 0, 1, 40, 0, unix.EINVAL},
		{"of both versions of IP", four, 8, 1 | 8, 1, 40, 0, unix.EINVAL},
		{"of TCP and UDP", four, 8, 1<<4 | 1<<7, 1, 40, 0, unix.EINVAL},
		{"of an SPI", four, 8, 1 << 8, 1, 40, 0, unix.EOPNOTSUPP},
		{"of the inner packet", four, 8, 3 | 1<<31, 1, 40, 0, unix.EOPNOTSUPP},
		{"with scatter to CQE", four, 8, 3, 1, 40, 1 << 1, unix.EINVAL},
	} {
		_, e := p.rss(pd, c.table, c.typ, c.fields, c.function, c.size, c.flags)
		p.want("create_qp "+c.what, e, c.want)
	}
	plain, e := p.rss(pd, one, 8, 0, 1, 40, 0)
	p.want("create_qp without a hash", e, 0)
	qp, e := p.rss(pd, four, 8, 1|1<<4, 1, 40, 1<<6)
	p.want("create_qp", e, 0)
	_, _, e = p.cmd(0x80000000|56, le(0, four), 0, nil, 0)
	p.want("destroy_rwq_ind_tbl of a QP", e, unix.EBUSY)
	for _, h := range []uint32{plain, qp} {
		_, _, e = p.cmd(27, le(uint64(0), h, 0), 4, nil, 0)
		p.want("destroy_qp", e, 0)
	}
	_, e = p.ioctl(11, 0, at(0, 0, uint64(four)))
	p.want("destroy_rwq_ind_tbl", e, 0)
	_, _, e = p.cmd(0x80000000|56, le(0, one), 0, nil, 0) // as libraries before v20 send it
	p.want("destroy_rwq_ind_tbl", e, 0)
	reported, out := p.out(1, 4)
	_, e = p.ioctl(12, 1, at(0, 0, uint64(w)), out)
	p.want("destroy_wq", e, 0)
	if u32(reported, 0) != 0 {
		t.Errorf("a WQ without events had %d", u32(reported, 0))
	}
	_, _, e = p.cmd(0x80000000|54, le(0, w), 16, nil, 0)
	p.want("destroy_wq again", e, unix.ENOENT)
}
