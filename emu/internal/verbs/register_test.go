//go:build linux

package verbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// oldContext is what libmlx5 of rdma-core 17 sends: it knows 4K doorbell pages, and not how to allocate one.
func oldContext(total, low int) []byte {
	return le(total, low, 0, 0, uint8(1), uint8(0), uint16(0), 0, uint64(1))
}

// get sends get_context with a driver's part and returns the driver's answer.
func (p *program) get(req []byte) ([]byte, unix.Errno) {
	p.t.Helper()
	if p.abi != "ioctl" {
		resp, drv, e := p.cmd(0, make([]byte, 8), 8, req, 72)
		if e == 0 {
			unix.Close(int(u32(resp, 0)))
		}
		return drv, e
	}
	_, a0 := p.out(0, 4)
	_, a1 := p.out(1, 8)
	uhw, a2 := p.out(0x1001, 72)
	_, e := p.ioctl(0, 3, a0, a1, p.in(0x1000, req), a2)
	return uhw, e
}

// oldQP makes an RC QP as old libraries do, and returns its handle and the register that it was given.
func (p *program) oldQP(pd, cq uint32, flags uint32, register int) (handle, given uint32, e unix.Errno) {
	p.t.Helper()
	_, buf := p.room(64*64*2, 4096)
	_, db := p.room(64, 64)
	drv := le(buf, db, 64, 16, 4, flags, 0x123, register, uint64(0))
	r, d, e := p.cmd(24, le(uint64(0), uint64(0xbeef), pd, cq, cq, 0, le(32, 16, 2, 1, 64), uint8(1), uint8(2),
		uint8(0), uint8(0)), 32, drv, 8)
	if e != 0 {
		return 0, 0, e
	}
	return u32(r, 0), u32(d, 0), 0
}

func (p *program) oldCQ() uint32 {
	p.t.Helper()
	h, e := p.tryOldCQ()
	p.must(e)
	return h
}

func (p *program) tryOldCQ() (handle uint32, e unix.Errno) {
	p.t.Helper()
	_, buf := p.room(64*256, 4096)
	_, db := p.room(64, 64)
	r, _, e := p.cmd(18, le(uint64(0), uint64(0xc0ffee), 100, 0, uint32(0xffffffff), 0), 8,
		le(buf, db, 64, uint8(0), uint8(0), uint16(0)), 8)
	return u32(r, 0), e
}

const (
	byNumber = 1 << 3 // a dynamic register is named. C: MLX5_QP_FLAG_BFREG_INDEX
	wcPages  = 6 << 8 // where dynamic pages are mapped. C: MLX5_IB_MMAP_ALLOC_WC
	ncPages  = 3 << 8
)

func (p *program) mapPage(page uint64) unix.Errno {
	return p.s.mmap(p.x, 4096, unix.PROT_WRITE, unix.MAP_SHARED, page*4096)
}

// A library that cannot allocate doorbell pages gets registers with its context, and a QP the one that the kernel
// picks: its own while there are, then the least used of the shared ones.
func TestStaticRegisters(t *testing.T) {
	for _, abi := range []string{"write", "ioctl"} {
		t.Run(abi, func(t *testing.T) {
			p := open(t)
			p.abi = abi
			u, e := p.get(oldContext(7, 3)) // rounded up to 8
			p.must(e)
			if u32(u, 8) != 8 || u32(u, 64) != 512 || u[44] != 1 {
				t.Fatalf("tot_bfregs %d, num_dyn_bfregs %d, cqe_version %d, want 8, 512, 1", u32(u, 8), u32(u, 64),
					u[44])
			}
			p.abi = "write"
			pd, cq := p.pd(), p.oldCQ()
			first, _, e := p.oldQP(pd, cq, 0, 0)
			p.must(e)
			// Registers 5 to 7 have one QP each, 1 to 4 are shared; in answers four numbers stand for two registers.
			for i, want := range []uint32{12, 13, 1, 4, 5, 8, 1} {
				_, given, e := p.oldQP(pd, cq, 0, 0)
				p.must(e)
				if given != want {
					t.Errorf("QP %d was given register %d, want %d", i+1, given, want)
				}
			}
			_, e = p.destroy(27, 4, first, 4)
			p.must(e)
			if _, given, e := p.oldQP(pd, cq, 0, 0); e != 0 || given != 9 {
				t.Errorf("after the first QP was destroyed the next was given register %d (%v), want its 9", given, e)
			}
		})
	}
}

// The page that a program maps is the one that the engine watches.
func TestStaticPages(t *testing.T) {
	p := open(t)
	p.abi = "write"
	p.want("before get_context", p.mapPage(0), unix.EINVAL)
	_, e := p.get(oldContext(16, 4))
	p.must(e)
	pd, cq := p.pd(), p.oldCQ()
	p.want("page 0", p.mapPage(0), 0)
	p.want("page 0 again", p.mapPage(0), 0)
	p.want("page 0, not cached, which would be another", p.mapPage(ncPages), unix.EINVAL)
	p.want("page 7, not cached", p.mapPage(ncPages|7), 0)
	p.want("page 8 of 8", p.mapPage(8), unix.EINVAL)
	p.want("page 8 of 8, not cached", p.mapPage(ncPages|8), unix.EINVAL)

	h, given, e := p.oldQP(pd, cq, 0, 0)
	p.must(e)
	if given != 6*4+1 && given != 6*4 {
		t.Fatalf("register %d, want one of page 6", given)
	}
	p.ring(ncPages|7, 7, hca.RegistersOf(p.x).Pages()[7])
	p.ring(6, 6, p.x.Object(h).(*hca.QP).UAR)
	if cq := p.x.Object(cq).(*hca.CQ); cq.UAR != hca.RegistersOf(p.x).Pages()[0] {
		t.Error("the CQ is not armed on page 0")
	}
}

// ring stores where the program does and looks where the engine does.
func (p *program) ring(page int64, name int, u *hca.UAR) {
	p.t.Helper()
	m, err := p.x.File.Map(page*4096, 4096)
	if err != nil {
		p.t.Fatal(err)
	}
	defer unix.Munmap(m)
	m[0x800] = 0x5a
	if u == nil || u.Page[0x800] != 0x5a {
		p.t.Errorf("what the program stores in page %d does not arrive", name)
	}
}

func TestDynamicRegisters(t *testing.T) {
	p := open(t)
	p.abi = "write"
	_, e := p.get(oldContext(16, 4))
	p.must(e)
	pd, cq := p.pd(), p.oldCQ()
	_, _, e = p.oldQP(pd, cq, byNumber, 6)
	p.want("a register whose page is not mapped", e, unix.EINVAL)
	p.want("map its page", p.mapPage(wcPages|3), 0)
	p.want("map it again", p.mapPage(wcPages|3), unix.EINVAL)
	p.want("the last page", p.mapPage(wcPages|255), 0)
	p.want("a page beyond", p.mapPage(wcPages|1<<16), unix.EINVAL)
	h, given, e := p.oldQP(pd, cq, byNumber, 7)
	p.must(e)
	if given != 1<<31 {
		t.Errorf("a QP that names its register was given %#x", given)
	}
	p.ring(wcPages|3, 3, p.x.Object(h).(*hca.QP).UAR)
	_, _, e = p.oldQP(pd, cq, byNumber, 512)
	p.want("register 512 of 512", e, unix.EINVAL)
	_, _, e = p.oldQP(pd, cq, byNumber, 1<<31)
	p.want("register -2147483648", e, unix.EINVAL)
	q, a := p.out(0x1001, 4)
	_, e = p.ioctl(0x1000, 0x1001, p.in(0x1000, le(6)), a)
	p.want("devx_query_uar", e, 0)
	if u32(q, 0) != 6 {
		t.Errorf("devx_query_uar answered %d", u32(q, 0))
	}
}

func TestOldContextRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		req  []byte
		want unix.Errno
	}{
		{"no registers", oldContext(0, 0), unix.EINVAL},
		{"all have one QP", oldContext(4, 4), unix.EINVAL},
		{"too many", oldContext(513, 4), unix.ENOMEM},
		{"between the versions", le(16, 4, 0), unix.EINVAL},
		{"most", oldContext(512, 4), 0},
		{"version 1", le(16, 4), 0},
	} {
		p := open(t)
		p.abi = "ioctl"
		u, e := p.get(c.req)
		p.want(c.name, e, c.want)
		if e != 0 {
			if hca.RegistersOf(p.x).Static() > 0 {
				t.Errorf("%s: registers are left", c.name)
			}
			_, e := p.get(oldContext(16, 4))
			p.want("get_context after "+c.name, e, 0)
		} else if len(c.req) == 8 {
			p.abi = "write"
			if u[44] != 0 {
				t.Errorf("%s: cqe_version %d", c.name, u[44])
			}
			p.x.CQEVersion = 1 // what oldQP sends
			pd, cq := p.pd(), p.oldCQ()
			for range 2 {
				if _, given, e := p.oldQP(pd, cq, 0, 0); e != 0 || given != 0 {
					t.Errorf("%s: a QP was given register %d (%v), want 0", c.name, given, e)
				}
			}
		}
	}
	// Who can allocate doorbell pages has no registers.
	p := open(t)
	p.getContext()
	p.abi = "write"
	pd, cq := p.pd(), p.cq(100, -1)
	_, _, e := p.oldQP(pd, cq, 0, 0)
	p.want("a QP without page", e, unix.EINVAL)
	_, _, e = p.oldQP(pd, cq, byNumber, 0)
	p.want("a QP with a register", e, unix.EINVAL)
	p.want("map page 0", p.mapPage(0), unix.EINVAL)
	p.want("map a dynamic page", p.mapPage(wcPages), unix.EINVAL)
	_, e = p.tryOldCQ()
	p.want("a CQ without page", e, unix.EINVAL)
}

// With CQE version 0 a library has no user index, and must not name one.
func TestCQEVersion0(t *testing.T) {
	for _, c := range []struct {
		name, device string
		offered      uint8
	}{{"device", "mlx5_0,cqe_version=0", 1}, {"library", "mlx5_0", 0}} {
		p := open(t, c.device)
		p.abi = "ioctl"
		req := oldContext(16, 4)
		req[16] = c.offered
		u, e := p.get(req)
		p.must(e)
		if u[44] != 0 {
			t.Errorf("%s: cqe_version %d", c.name, u[44])
		}
		p.abi = "write"
		pd, cq := p.pd(), p.oldCQ()
		_, _, e = p.oldQP(pd, cq, 0, 0)
		p.want(c.name+": a user index", e, unix.EINVAL)
		_, buf := p.room(64*64*2, 4096)
		_, db := p.room(64, 64)
		for _, drv := range [][]byte{le(buf, db, 64, 16, 4, 0, 0xffffff, 0, uint64(0)), le(buf, db, 64, 16, 4, 0)} {
			r, _, e := p.cmd(24, le(uint64(0), uint64(0xbeef), pd, cq, cq, 0, le(32, 16, 2, 1, 64), uint8(1), uint8(2),
				uint8(0), uint8(0)), 32, drv, 8)
			p.want(c.name+": no user index", e, 0)
			if qp, ok := p.x.Object(u32(r, 0)).(*hca.QP); !ok || qp.UIdx != 0 || qp.RecvIdx != 0 {
				t.Errorf("%s: made %+v", c.name, p.x.Object(u32(r, 0)))
			}
		}
	}
}
