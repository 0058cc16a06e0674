//go:build linux

package verbs

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// TestPrivileges: what the kernel lets only some programs do.
func TestPrivileges(t *testing.T) {
	p := open(t)
	p.getContext()
	pd, cq := p.pd(), p.cq(64, -1)
	create := func(typ, flags int) (uint32, unix.Errno) {
		r, _, e := p.cmd(0x80000000|24, le(uint64(0xbeef), pd, cq, cq, 0, le(32, 10, 2, 1, 64), uint8(1), uint8(typ),
			uint8(0), uint8(0), 0, flags, 0, 0), 40, p.qpDriver(0x123), 40)
		return u32(r, 0), e
	}
	ud, e := create(4, 0)
	p.must(e)
	qkey := func(key uint32) unix.Errno {
		return p.modify(modify(ud, hca.AttrState|hca.AttrPKeyIndex|hca.AttrPort|hca.AttrQKey, func(b []byte) {
			binary.LittleEndian.PutUint32(b[72:], key)
			b[96], b[104] = 1, 1 // qp_state, port_num
		}))
	}
	for _, p.plain = range []bool{true, false} {
		with := func(what string, e, want unix.Errno) {
			if p.plain {
				want = unix.EPERM
			}
			p.want(fmt.Sprintf("%s, plain %v", what, p.plain), e, want)
		}
		with("a controlled Q_Key", qkey(0x80000001), 0)
		p.want("a Q_Key", qkey(0x11111111), 0)
		_, e := create(8, 0)
		with("a raw packet QP", e, unix.EFAULT) // it has no buffer for sends
		_, e = create(2, createSourceQPN)
		with("a QP with the number of another", e, unix.EOPNOTSUPP)
		_, e = p.wq(wqInit{count: 8, shift: 5, pd: pd, cq: cq, flags: delayDrop})
		with("a WQ with delay drop", e, unix.EOPNOTSUPP)
	}
}

// TestExtensions: what the kernel takes of a command's extension, and what it has no answer to.
func TestExtensions(t *testing.T) {
	p := open(t, "mlx5_0,dmabuf=memfd,link=ib")
	p.getContext()
	pd := p.pd()

	// The driver answers create_ah only on RoCE.
	core := le(uint64(0), uint64(0), pd, 0, make([]byte, 16), 0, uint8(0), uint8(0), uint8(0), uint8(0), uint16(2),
		uint8(0), uint8(0), uint8(0), uint8(0), uint8(1), uint8(0))
	for _, room := range []int{0, 8, 16} {
		_, d, e := p.cmd(5, core, 4, nil, room)
		p.want(fmt.Sprintf("create_ah with room of %d", room), e, 0)
		for _, b := range d {
			if b != 0xee {
				t.Fatalf("create_ah on InfiniBand: the driver's answer is % x", d)
			}
		}
	}

	// CQ flags that nobody knows.
	_, buf := p.room(64*256, 4096)
	_, db := p.room(64, 64)
	drv := le(buf, db, 64, uint8(0), uint8(0), uint16(2), uint16(p.page), uint16(0), 0)
	_, _, e := p.cmd(0x80000000|18, le(uint64(1), 10, 0, -1, 0, 4, 0), 16, drv, 8)
	p.want("ex_create_cq with flag 4", e, unix.EOPNOTSUPP)
	_, out := p.out(6, 4)
	_, u := p.out(0x1001, 8)
	_, e = p.ioctl(3, 0, at(0, 0, 0), p.in(1, le(10)), at(2, 8, 1), p.in(4, le(0)), p.in(5, le(4)), out,
		p.in(0x1000, drv), u)
	p.want("create_cq with flag 4", e, unix.EINVAL)

	// Rights to flush, which are known, and which no adapter here has.
	reg := func(access int) unix.Errno {
		_, _, e := p.cmd(9, le(uint64(0), addressOf(p.arena), uint64(4096), addressOf(p.arena), pd, access), 12, nil, 0)
		return e
	}
	p.want("reg_mr", reg(1), 0)
	p.want("reg_mr with the right to flush", reg(0x101), unix.EOPNOTSUPP)
	p.want("reg_mr with unknown rights", reg(0x401), unix.EINVAL)

	// Memory by its file: it has an offset, and no address.
	fd, err := unix.MemfdCreate("buffer", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 8192); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		attrs [][]byte
		want  unix.Errno
	}{
		"it":                    {[][]byte{p.in(8, le(uint64(0)))}, 0},
		"it with an address":    {[][]byte{p.in(8, le(uint64(0))), p.in(4, le(addressOf(p.arena)))}, unix.EINVAL},
		"it without its offset": {nil, unix.EINVAL},
		"what lies beyond it":   {[][]byte{p.in(8, le(uint64(8192)))}, unix.EINVAL},
	} {
		l, la := p.out(9, 4)
		_, ra := p.out(10, 4)
		as := append([][]byte{at(0, 0, 0), at(1, 0, uint64(pd)), p.in(3, le(uint64(0))), p.in(5, le(uint64(4096))),
			p.in(6, le(uint64(1))), at(7, 0, uint64(fd)), la, ra}, c.attrs...)
		got, e := p.ioctl(7, 5, as...)
		p.want("reg_mr by a file: "+name, e, c.want)
		if k, _ := p.x.Object(u32(got, 8)).(*hca.MKey); e == 0 && (k == nil || k.Key != u32(l, 0)) {
			t.Errorf("it made %+v, and said %#x", k, u32(l, 0))
		}
	}
}
