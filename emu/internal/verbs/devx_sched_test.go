//go:build linux

package verbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// element makes an element of the scheduler.
func (p *program) element(typ, parent int, fields ...any) (handle uint32, num int, out []byte, e unix.Errno) {
	in := prm(uapi.OpCreateGeneralObject, 16+128, uapi.CmdObjType, objScheduler)
	for _, f := range []struct {
		at uapi.Bits
		v  int
	}{{schedHierarchy, schedNIC}, {schedType, typ}, {schedParent, parent}} {
		f.at.Put(in[16:], uint64(f.v))
	}
	for i := 0; i < len(fields); i += 2 {
		fields[i].(uapi.Bits).Put(in[16:], uint64(fields[i+1].(int)))
	}
	handle, out, e = p.object(0, 0, in, 16)
	return handle, int(uapi.OutObjID.Get(out)), out, e
}

func TestScheduler(t *testing.T) {
	p := openDevX(t)
	root, rootNum, _, e := p.element(schedNode, 0)
	p.must(e)
	node, nodeNum, _, e := p.element(schedNode, rootNum, schedSelect, schedRate, schedFields[schedRate], 10)
	p.must(e)
	leaf, leafNum, _, e := p.element(schedLeaf, nodeNum)
	p.must(e)
	for _, c := range []struct {
		what   string
		typ    int
		parent int
		fields []any
		want   uapi.Status
	}{
		{"a leaf without a node", schedLeaf, 0, nil, uapi.StatusBadResource},
		{"an element below a leaf", schedNode, leafNum, nil, uapi.StatusBadResource},
		{"an element below nothing", schedNode, 4711, nil, uapi.StatusBadResource},
		{"a type that there is not", 1, rootNum, nil, uapi.StatusBadParam},
		{"another hierarchy", schedNode, 0, []any{schedHierarchy, 2}, uapi.StatusBadParam},
		{"another way to choose", schedNode, 0, []any{schedChoice, 1}, uapi.StatusBadParam},
		{"unknown fields", schedNode, 0, []any{schedSelect, 4}, uapi.StatusBadParam},
	} {
		_, _, out, e := p.element(c.typ, c.parent, c.fields...)
		p.wantStatus(c.what, out, e, c.want)
	}

	change := prm(uapi.OpModifyGeneralObject, 16+128, uapi.CmdObjType, objScheduler, uapi.CmdObjID, nodeNum)
	for f, v := range map[uapi.Bits]uint64{schedHierarchy: schedNIC, schedSelect: schedShare,
		schedFields[schedShare]: 7, schedFields[schedRate]: 99} {
		f.Put(change[16:], v)
	}
	_, _, e = p.object(2, node, change, 16)
	p.must(e)
	query := prm(uapi.OpQueryGeneralObject, 16, uapi.CmdObjType, objScheduler, uapi.CmdObjID, nodeNum)
	_, out, e := p.object(3, node, query, 16+128)
	p.must(e)
	if b := out[16:]; schedFields[schedShare].Get(b) != 7 || schedFields[schedRate].Get(b) != 10 {
		t.Errorf("a share of %d and a rate of %d, want 7 and 10", schedFields[schedShare].Get(b),
			schedFields[schedRate].Get(b))
	}

	qp, qpn := p.qp(p.pd(), p.cq(16, -1))
	p.connect(qp, qpn)
	attach := func(num, answers int) ([]byte, unix.Errno) {
		in := prm(uapi.OpRts2RtsQP, 0x880/8+0xc0, uapi.CmdNum, int(qpn), qpExtends, 1, qpMoreMask, moreSchedule,
			qpExtReq, num, qpExtResp, answers)
		_, out, e := p.object(2, qp, in, 16)
		return out, e
	}
	_, e = attach(leafNum, leafNum)
	p.must(e)
	_, e = attach(0, 0)
	p.must(e)
	out, e = attach(nodeNum, 0)
	p.wantStatus("a QP at a node", out, e, uapi.StatusBadParam)

	for i, h := range []uint32{root, node, leaf, node, root} {
		want := unix.Errno(0)
		if i < 2 {
			want = unix.EBUSY
		}
		_, e = p.ioctl(0x1001, 0x1001, at(0x1000, 0, uint64(h)))
		p.want("destroy", e, want)
	}
	p = openDevX(t, "mlx5_0,model=cx5")
	_, _, out, e = p.element(schedNode, 0)
	p.wantStatus("an adapter without a scheduler", out, e, uapi.StatusBadParam)
}

// pace allocates an entry of the table of rates.
func (p *program) pace(limit []byte, flags uint64) (handle uint32, index uint16, e unix.Errno) {
	out, a := p.out(0x1003, 2)
	as, e := p.ioctl(0x1007, 0x1000, at(0x1000, 0, 0), p.in(0x1001, limit), at(0x1002, 8, flags), a)
	return u32(as, 8), uint16(out[0]) | uint16(out[1])<<8, e
}

func TestPaces(t *testing.T) {
	p := openDevX(t)
	kbps := []byte{0, 0, 0, 100}
	a, first, e := p.pace(kbps, 0)
	p.must(e)
	b, same, e := p.pace(kbps, 0)
	p.must(e)
	c, own, e := p.pace(kbps, uapi.PaceDedicated)
	p.must(e)
	d, other, e := p.pace([]byte{0, 0, 0, 101}, 0)
	p.must(e)
	if first == 0 || same != first || own == first || other == first || other == own {
		t.Errorf("indices %d, %d, %d, %d", first, same, own, other)
	}
	for what, limit := range map[string][]byte{"no rate": {0, 0, 0, 0}, "too much": {255, 0, 0, 0}} {
		_, _, e = p.pace(limit, 0)
		p.want(what, e, unix.EINVAL)
	}
	_, _, e = p.pace(kbps, 2)
	p.want("unknown flags", e, unix.EINVAL)
	for _, h := range []uint32{a, b, c, d} {
		_, e = p.ioctl(0x1007, 0x1001, at(0x1000, 0, uint64(h)))
		p.want("free", e, 0)
	}
	for range hca.MaxPaces {
		_, _, e = p.pace(kbps, uapi.PaceDedicated)
		p.must(e)
	}
	_, _, e = p.pace(kbps, uapi.PaceDedicated)
	p.want("one more than the table has", e, unix.ENOSPC)
}

func TestVAR(t *testing.T) {
	p := openDevX(t)
	off, a1 := p.out(0x1001, 8)
	length, a2 := p.out(0x1002, 4)
	id, a3 := p.out(0x1003, 4)
	as, e := p.ioctl(0x1006, 0x1000, at(0x1000, 0, 0), a1, a2, a3)
	p.must(e)
	if u32(length, 0) != pageSize {
		t.Errorf("length %d", u32(length, 0))
	}
	mapping := func(off uint64) unix.Errno {
		return p.s.mmap(p.x, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, off)
	}
	p.want("mmap", mapping(u64(off, 0)), 0)
	p.want("mmap of the next", mapping(u64(off, 0)+pageSize), unix.EINVAL)
	_, e = p.ioctl(0x1006, 0x1001, at(0x1000, 0, uint64(u32(as, 8))))
	p.want("free", e, 0)
	p.want("mmap of what is free", mapping(u64(off, 0)), unix.EINVAL)
	as, e = p.ioctl(0x1006, 0x1000, at(0x1000, 0, 0), a1, a2, a3)
	if p.must(e); u32(id, 0) != 0 || u32(as, 8) == 0 {
		t.Errorf("page %d, handle %d", u32(id, 0), u32(as, 8))
	}
}

func TestDMAH(t *testing.T) {
	p := openDevX(t)
	alloc := func(cpu int, memory, hint int) (uint32, unix.Errno) {
		attrs := [][]byte{at(0, 0, 0)}
		if cpu >= 0 {
			attrs = append(attrs, at(1, 4, uint64(cpu)))
		}
		if memory >= 0 {
			a := at(2, 0, 0)
			a[6] = byte(memory) // the value of an enumeration
			attrs = append(attrs, a)
		}
		if hint >= 0 {
			attrs = append(attrs, at(3, 1, uint64(hint)))
		}
		as, e := p.ioctl(uapi.ObjDMAH, 0, attrs...)
		return u32(as, 8), e
	}
	for _, c := range []struct {
		what              string
		cpu, memory, hint int
		want              unix.Errno
	}{
		{"no hint", 0, 0, -1, unix.EINVAL},
		{"no such hint", 0, 0, 4, unix.EINVAL},
		{"a processor without a kind of memory", 0, -1, 0, unix.EINVAL},
		{"no such processor", 1 << 16, 0, 0, unix.EINVAL},
		{"no such kind of memory", 0, 2, 0, unix.EOPNOTSUPP},
		{"a hint alone", -1, -1, 3, 0},
	} {
		_, e := alloc(c.cpu, c.memory, c.hint)
		p.want(c.what, e, c.want)
	}
	h, e := alloc(0, 1, 2)
	p.must(e)
	_, mem := p.room(4096, 4096)
	reg := func(access int) (uint32, unix.Errno) {
		_, lkey := p.out(9, 4)
		_, rkey := p.out(10, 4)
		as, e := p.ioctl(uapi.ObjMR, 5, at(0, 0, 0), at(1, 0, uint64(p.pd())), at(2, 0, uint64(h)), at(3, 8, mem),
			at(4, 8, mem), at(5, 8, 4096), at(6, 4, uint64(access)), lkey, rkey)
		return u32(as, 8), e
	}
	_, e = reg(int(hca.AccessLocalWrite | hca.AccessOnDemand))
	p.want("a region on demand", e, unix.EOPNOTSUPP)
	mr, e := reg(int(hca.AccessLocalWrite))
	p.must(e)
	_, e = p.ioctl(uapi.ObjDMAH, 1, at(0, 0, uint64(h)))
	p.want("free while a region has it", e, unix.EBUSY)
	_, e = p.ioctl(uapi.ObjMR, 1, at(0, 0, uint64(mr)))
	p.must(e)
	_, e = p.ioctl(uapi.ObjDMAH, 1, at(0, 0, uint64(h)))
	p.want("free", e, 0)
}

func TestPortSpeed(t *testing.T) {
	p := openDevX(t)
	speed, a := p.out(1, 8)
	_, e := p.ioctl(uapi.ObjDevice, 7, at(0, 8, 1), a)
	if p.must(e); u64(speed, 0) != 4000 { // 400 Gb/s
		t.Errorf("speed %d", u64(speed, 0))
	}
	_, e = p.ioctl(uapi.ObjDevice, 7, at(0, 8, 2), a)
	p.want("no such port", e, unix.EINVAL)
}
