//go:build linux

package verbs

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

// rawQP makes a raw packet QP and returns its handle, or the errno.
func (p *program) rawQP(pd, cq uint32, flags int) (uint32, unix.Errno) {
	p.t.Helper()
	drv := p.qpDriver(0x123)
	drv = append(drv[:40:40], drv[:8]...) // the send ring where the other is: nobody executes anything here
	resp, drvResp, e := p.cmd(0x80000000|24, le(uint64(0xbeef), pd, cq, cq, 0, le(32, 10, 2, 1, 64), uint8(1), uint8(8),
		uint8(0), uint8(0), 0, flags, 0, 0), 40, drv, 40)
	if e != 0 {
		return 0, e
	}
	if u32(drvResp, 8) != 15 || u32(drvResp, 24) != u32(resp, 4) {
		p.t.Errorf("the driver's answer is %x", drvResp)
	}
	return u32(resp, 0), 0
}

// specEthTo is a spec of frames to an address.
func specEthTo(last byte) []byte {
	mac, all := []byte{2, 0, 0, 0, 0, last}, bytes.Repeat([]byte{255}, 6)
	return le(0x20, uint16(40), uint16(0), mac, make([]byte, 10), all, make([]byte, 10))
}

// flow sends create_flow and returns the handle.
func (p *program) flow(head []byte, drv []byte, specs ...[]byte) (uint32, unix.Errno) {
	p.t.Helper()
	resp, _, e := p.cmd(0x80000000|50, append(bytes.Clone(head), bytes.Join(specs, nil)...), 8, drv, 0)
	if e != 0 {
		return 0, e
	}
	return u32(resp, 4), 0
}

func TestFlows(t *testing.T) {
	p := open(t)
	p.getContext()
	pd, cq := p.pd(), p.cq(10, -1)
	qp, e := p.rawQP(pd, cq, 1<<8|1<<9)
	p.want("create_qp", e, 0)
	_, e = p.rawQP(pd, cq, 1<<11)
	p.want("create_qp with padding", e, unix.EOPNOTSUPP)
	head := func(typ, size, prio, n, port, flags int) []byte {
		return le(0, qp, typ, uint16(size), uint16(prio), uint8(n), uint16(0), uint8(port), flags)
	}
	counters := func() uint32 {
		a, e := p.ioctl(15, 0, at(0, 0, 0))
		p.want("create_counters", e, 0)
		return u32(a, 8)
	}
	count := func(h uint32) []byte { return le(0x1003, uint16(16), uint16(0), h, 0) }
	points := func(of ...uint32) []byte {
		var b []byte
		for _, v := range of {
			b = append(b, le(v)...)
		}
		return le(1, 0, p.put(b), len(of)/2, 0)
	}
	c := counters()
	f, e := p.flow(head(0, 56, 3, 2, 1, 0), points(0, 1, 1, 0), specEthTo(1), count(c))
	p.want("create_flow", e, 0)
	_, e = p.ioctl(15, 1, at(0, 0, uint64(c)))
	p.want("destroy_counters in use", e, unix.EBUSY)
	_, _, e = p.cmd(27, le(uint64(0), qp, 0), 4, nil, 0)
	p.want("destroy_qp with a rule", e, unix.EBUSY)
	values, a := p.out(1, 16)
	read := func(n int) unix.Errno {
		_, e := p.ioctl(15, 2, at(0, 0, uint64(c)), at(1, n, u64(a, 8)), at(2, 4, 0))
		return e
	}
	p.want("read_counters", read(16), 0)
	if u64(values, 0) != 0 || u64(values, 8) != 0 {
		t.Errorf("counted %x", values)
	}
	p.want("read_counters, too few", read(8), unix.EINVAL)

	for _, c := range []struct {
		what  string
		head  []byte
		drv   []byte
		specs [][]byte
		want  unix.Errno
	}{
		{"with the matches of another and something else to do", head(0, 48, 3, 2, 1, 0), nil, [][]byte{specEthTo(1),
			le(0x1001, uint16(8), uint16(0))}, unix.EEXIST},
		{"of no QP", le(0, 4711, 0, uint16(0), uint16(0), uint8(0), uint16(0), uint8(1), 0), nil, nil, unix.ENOENT},
		{"with a component mask", le(1, qp, 0, uint16(0), uint16(0), uint8(0), uint16(0), uint8(1), 0), nil, nil,
			unix.EINVAL},
		{"of an unknown kind", head(4, 0, 0, 0, 1, 0), nil, nil, unix.EINVAL},
		{"of priority 16", head(0, 0, 16, 0, 1, 0), nil, nil, unix.ENOMEM},
		{"of port 0", head(0, 0, 0, 0, 0, 0), nil, nil, unix.EINVAL},
		{"of port 2", head(0, 0, 0, 0, 2, 0), nil, nil, unix.EINVAL},
		{"with the oldest flag", head(0, 0, 0, 0, 1, 1), nil, nil, unix.EINVAL},
		{"for what goes out, by default", head(1, 0, 0, 0, 1, 4), nil, nil, unix.EINVAL},
		{"by default, with a tag", head(1, 16, 0, 1, 1, 0), nil, [][]byte{le(0x1000, uint16(16), uint16(0), 1, 0)},
			unix.EINVAL},
		{"with a tag of 25 bits", head(0, 16, 0, 1, 1, 0), nil, [][]byte{le(0x1000, uint16(16), uint16(0), 1<<24, 0)},
			unix.EINVAL},
		{"shorter than its specs", head(0, 40, 0, 2, 1, 0), nil, [][]byte{specEthTo(1)}, unix.EINVAL},
		{"longer than its specs", head(0, 40, 0, 0, 1, 0), nil, [][]byte{specEthTo(1)}, unix.EINVAL},
		{"longer than its request", head(0, 80, 0, 1, 1, 0), nil, [][]byte{specEthTo(1)}, unix.EINVAL},
		{"with an unknown spec", head(0, 40, 0, 1, 1, 0), nil, [][]byte{append(le(0x21), specEthTo(1)[4:]...)},
			unix.EINVAL},
		{"with a reserved field", head(0, 40, 0, 1, 1, 0), nil, [][]byte{append(le(0x20, uint16(40), uint16(1)),
			specEthTo(1)[8:]...)}, unix.EINVAL},
		{"that compares TTLs", head(0, 32, 0, 1, 1, 0), nil, [][]byte{le(0x30, uint16(32), uint16(0), make([]byte, 22),
			uint8(255), uint8(0))}, unix.EOPNOTSUPP},
		{"of IPv4 behind IPv6's type", head(0, 72, 0, 2, 1, 0), nil, [][]byte{le(0x20, uint16(40), uint16(0),
			make([]byte, 12),
			uint16(0xdd86), uint16(0), make([]byte, 12), uint16(0xffff), uint16(0)),
			le(0x30, uint16(32), uint16(0), make([]byte, 24))}, unix.EINVAL},
		{"with counters of nothing", head(0, 16, 0, 1, 1, 0), nil, [][]byte{count(4711)}, unix.ENOENT},
		{"with counters that have no points", head(0, 16, 0, 1, 1, 0), nil, [][]byte{count(counters())}, unix.EINVAL},
		{"with points of an unknown kind", head(0, 16, 0, 1, 1, 0), points(2, 0), [][]byte{count(counters())},
			unix.EINVAL},
		{"with points where nothing is", head(0, 16, 0, 1, 1, 0), le(1, 0, uint64(1<<46), 1, 0),
			[][]byte{count(counters())},
			unix.EFAULT},
		{"with an ESP action", head(0, 16, 0, 1, 1, 0), nil, [][]byte{le(0x1002, uint16(16), uint16(0), 1, 0)},
			unix.EINVAL},
	} {
		_, e := p.flow(c.head, c.drv, c.specs...)
		p.want("create_flow "+c.what, e, c.want)
	}
	_, e = p.ioctl(9, 0, at(0, 0, uint64(f)))
	p.want("destroy_flow", e, 0)
	g, e := p.flow(head(3, 0, 0, 0, 1, 0), nil)
	p.want("create_flow of a sniffer", e, 0)
	_, _, e = p.cmd(0x80000000|51, le(0, g), 0, nil, 0) // as libraries before v20 send it
	p.want("destroy_flow", e, 0)
	_, _, e = p.cmd(27, le(uint64(0), qp, 0), 4, nil, 0)
	p.want("destroy_qp", e, 0)
}
