//go:build linux

package verbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/engine"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// The test itself is the program: its memory is read and written as a stranger's is.
type self struct {
	uapi.Memory
	plain bool // without capabilities
}

func (s self) WriteSpans(all []uapi.Span) error { return writeEach(s, all) }

// writeEach writes spans one by one.
func writeEach(m uapi.Memory, all []uapi.Span) error {
	for _, s := range all {
		if err := m.Write(s.Addr, s.Bytes); err != nil {
			return err
		}
	}
	return nil
}

func (self) mem() guest.Mem { return guest.Mem{PID: os.Getpid()} }

func (self) link(fd int32) string { return guest.FDName(os.Getpid(), int(fd)) }

func (self) stat(fd int32) (uint64, uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(fd), &st)
	return st.Dev, st.Ino, err
}

func (s self) capable(int) bool { return !s.plain }

func (self) id() int { return unix.Gettid() }

func (self) install(fd int) (int, error) { return unix.Dup(fd) }

// program is one that has opened a device.
type program struct {
	t     *testing.T
	s     *Server
	x     *hca.Context
	arena []byte
	used  int
	page  uint32 // of doorbells
	plain bool   // without capabilities
	abi   string // how commands that all interfaces have are sent: write, invoke, ioctl
}

// noEngine executes nothing.
type noEngine struct{ hca.Engine }

func (noEngine) UARAdded(*hca.UAR)                            {}
func (noEngine) UARRemoved(*hca.UAR)                          {}
func (noEngine) QPCreated(*hca.QP)                            {}
func (noEngine) QPLeaves(*hca.QP)                             {}
func (noEngine) QPModified(*hca.QP, hca.QPState, hca.QPState) {}
func (noEngine) QPDestroyed(*hca.QP)                          {}
func (noEngine) StreamReset(*hca.QP, uint16)                  {}
func (noEngine) CQCreated(*hca.CQ)                            {}
func (noEngine) CQDestroyed(*hca.CQ)                          {}
func (noEngine) CQUnpolled(*hca.CQ) uint32                    { return 0 }
func (noEngine) CQResized(*hca.CQ, uint64, uint32, uint32)    {}
func (noEngine) SRQCreated(*hca.SRQ)                          {}
func (noEngine) SRQDestroyed(*hca.SRQ)                        {}
func (noEngine) SRQLimitArmed(*hca.SRQ)                       {}
func (noEngine) KeyRevoked(*hca.MKey)                         {}
func (noEngine) PortChanged(*hca.Port)                        {}

func open(t *testing.T, flags ...string) *program {
	t.Helper()
	k := config.Default()
	if len(flags) > 0 {
		var err error
		if k, err = config.Parse(flags); err != nil {
			t.Fatal(err)
		}
	}
	f := hca.New(k)
	f.SetEngine(noEngine{})
	s := New(f)
	arena, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, s: s, arena: arena, abi: "invoke"}
	fl, err := s.open(0, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	p.x = fl.ctx
	t.Cleanup(func() {
		s.release(fl)
		unix.Munmap(arena)
	})
	return p
}

func (p *program) who() *answered {
	return &answered{caller: self{Memory: guest.Mem{PID: os.Getpid()}, plain: p.plain}}
}

func (p *program) room(n, align int) ([]byte, uint64) {
	p.used = (p.used + align - 1) &^ (align - 1)
	if p.used+n > len(p.arena) {
		p.used = 0
	}
	b := p.arena[p.used : p.used+n : p.used+n]
	p.used += n
	return b, addressOf(b)
}

func (p *program) put(b []byte) uint64 {
	r, a := p.room(max(len(b), 8), 8)
	copy(r, b)
	return a
}

// le writes numbers one after the other.
func le(vs ...any) (b []byte) {
	for _, v := range vs {
		switch v := v.(type) {
		case uint8:
			b = append(b, v)
		case uint16:
			b = binary.LittleEndian.AppendUint16(b, v)
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, v)
		case int:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		case uint64:
			b = binary.LittleEndian.AppendUint64(b, v)
		case []byte:
			b = append(b, v...)
		default:
			panic(fmt.Sprintf("le: %T", v))
		}
	}
	return b
}

func u32(b []byte, off int) uint32 { return binary.LittleEndian.Uint32(b[off:]) }
func u64(b []byte, off int) uint64 { return binary.LittleEndian.Uint64(b[off:]) }

// at is an attribute of the ioctl.
func at(id, n int, data uint64) []byte { return le(uint16(id), uint16(n), uint16(1), uint16(0), data) }

// ioctl sends attributes and returns them as they are afterwards.
func (p *program) ioctl(object, method int, attrs ...[]byte) ([]byte, unix.Errno) {
	b := le(uint16(24+16*len(attrs)), uint16(object), uint16(method), uint16(len(attrs)), uint64(0), uint32(1),
		uint32(0))
	for _, a := range attrs {
		b = append(b, a...)
	}
	r, addr := p.room(len(b), 8)
	copy(r, b)
	e := p.s.ioctl(p.who(), p.x, 0xc0181b01, addr)
	return r[24:], e
}

// in is an attribute with bytes for the kernel.
func (p *program) in(id int, b []byte) []byte {
	if len(b) <= 8 {
		return at(id, len(b), u64(append(append([]byte{}, b...), make([]byte, 8)...), 0))
	}
	return at(id, len(b), p.put(b))
}

// out is an attribute with room for an answer.
func (p *program) out(id, n int) ([]byte, []byte) {
	r, a := p.room(max(n, 8), 8)
	for i := range r {
		r[i] = 0xee
	}
	return r[:n], at(id, n, a)
}

// cmd sends a write() command, by the interface that p.abi says. core lacks the header, and has the response pointer
// where there is one.
func (p *program) cmd(
	number uint32, core []byte, respLen int, drv []byte, drvLen int,
) (resp, drvResp []byte, e unix.Errno) {
	p.t.Helper()
	if p.abi != "write" {
		as := [][]byte{p.in(0, core), at(2, 8, uint64(number))}
		if respLen > 0 {
			var a []byte
			resp, a = p.out(1, respLen)
			as = append(as, a)
		}
		if len(drv) > 0 {
			as = append(as, p.in(0x1000, drv))
		}
		if drvLen > 0 {
			var a []byte
			drvResp, a = p.out(0x1001, drvLen)
			as = append(as, a)
		}
		_, e = p.ioctl(0, 0, as...)
		return resp, drvResp, e
	}
	r, addr := p.room((respLen+drvLen+7)&^7, 8)
	for i := range r {
		r[i] = 0xee
	}
	var b []byte
	if number&0x80000000 == 0 {
		core = append([]byte{}, core...)
		if respLen > 0 {
			binary.LittleEndian.PutUint64(core, addr)
		}
		b = le(number, uint16((8+len(core)+len(drv))/4), uint16((respLen+drvLen)/4), core, drv)
	} else {
		if respLen == 0 {
			addr = 0
		}
		b = le(number, uint16((len(core)+7)/8), uint16(respLen/8), addr, uint16(len(drv)/8), uint16(drvLen/8),
			uint32(0), core, make([]byte, -len(core)&7), drv)
	}
	e = p.s.write(p.who(), p.x, p.put(b), uint64(len(b)))
	return r[:respLen], r[respLen:][:drvLen], e
}

func (p *program) must(e unix.Errno) {
	p.t.Helper()
	if e != 0 {
		p.t.Fatalf("%s: %v", p.abi, e)
	}
}

func (p *program) want(what string, got, want unix.Errno) {
	p.t.Helper()
	if got != want {
		p.t.Errorf("%s by %s: %v, want %v", what, p.abi, got, want)
	}
}

// ucontextReq is what libmlx5 sends: version 2, version 1 of CQEs, 4K and dynamic doorbell pages.
func ucontextReq() []byte { return le(16, 4, 0, 0, uint8(1), uint8(0), uint16(0), 0, uint64(3)) }

func (p *program) getContext() {
	p.t.Helper()
	if p.abi == "write" {
		resp, drv, e := p.cmd(0, make([]byte, 8), 8, ucontextReq(), 72)
		p.must(e)
		if u32(resp, 4) != compVectors || u32(drv, 40) != 72 {
			p.t.Errorf("get_context answered % x, % x", resp, drv)
		}
		unix.Close(int(u32(resp, 0)))
		_, p.page, _ = p.uar()
		return
	}
	vectors, a0 := p.out(0, 4)
	core, a1 := p.out(1, 8)
	uhw, a2 := p.out(0x1001, 72)
	_, e := p.ioctl(0, 3, a0, a1, p.in(0x1000, ucontextReq()), a2)
	p.must(e)
	if u32(vectors, 0) != compVectors || u64(core, 0) != 1 {
		p.t.Errorf("get_context: %d vectors, core support %#x", u32(vectors, 0), u64(core, 0))
	}
	for _, f := range []struct {
		name      string
		off, want int
	}{{"bf_reg_size", 4, 512}, {"tot_bfregs", 8, 0}, {"cache_line_size", 12, 64}, {"comp_mask", 36, 11},
		{"response_length", 40, 72}, {"hca_core_clock_offset", 48, clockOffset},
		{"log_uar_size", 56, 12}, {"num_uars_per_page", 60, 1}} {
		if got := u32(uhw, f.off); got != uint32(f.want) {
			p.t.Errorf("%s is %d, want %d", f.name, got, f.want)
		}
	}
	want := []byte{1, 3, 1, 1}
	if p.x.Device.Ports[0].Config.LinkLayer == config.InfiniBand {
		want[2] = 0
	}
	if got := uhw[44:48]; !bytes.Equal(got, want) {
		p.t.Errorf("cqe_version, cmds_supp_uhw, eth_min_inline, clock_info_versions are %v, want %v", got, want)
	}
	as, e := p.ioctl(16, 0, at(0, 0, 0))
	p.must(e)
	unix.Close(int(u32(as, 8)))
	_, p.page, _ = p.uar()
}

func (p *program) pd() uint32 {
	p.t.Helper()
	resp, drv, e := p.cmd(3, make([]byte, 8), 4, nil, 4)
	p.must(e)
	if u32(drv, 0) == 0xeeeeeeee {
		p.t.Error("alloc_pd: no PDN")
	}
	return u32(resp, 0)
}

// destroy sends what destroys an object, by write() or the ioctl: respLen bytes answered.
func (p *program) destroy(number uint32, object int, handle uint32, respLen int) ([]byte, unix.Errno) {
	if p.abi == "ioctl" {
		if respLen == 0 {
			_, e := p.ioctl(object, map[bool]int{true: 1, false: 0}[object == 7], at(0, 0, uint64(handle)))
			return nil, e
		}
		r, a := p.out(1, respLen)
		_, e := p.ioctl(object, 1, at(0, 0, uint64(handle)), a)
		return r, e
	}
	core := le(handle)
	if respLen > 0 {
		core = le(uint64(0), handle, 0)
	}
	r, _, e := p.cmd(number, core, respLen, nil, 0)
	return r, e
}

func (p *program) uar() (handle, page uint32, offset uint64) {
	p.t.Helper()
	off, a2 := p.out(0x1002, 8)
	length, a3 := p.out(0x1003, 4)
	id, a4 := p.out(0x1004, 4)
	as, e := p.ioctl(0x1008, 0x1000, at(0x1000, 0, 0), at(0x1001, 8, 0), a2, a3, a4)
	p.must(e)
	if u32(length, 0) != 4096 {
		p.t.Errorf("uar_alloc: length %d", u32(length, 0))
	}
	return u32(as, 8), u32(id, 0), u64(off, 0)
}

// cq makes a CQ of n entries and gives its handle.
func (p *program) cq(n int, channel int32) uint32 {
	p.t.Helper()
	_, buf := p.room(64*256, 4096)
	_, db := p.room(64, 64)
	drv := le(buf, db, 64, uint8(0), uint8(0), uint16(2), uint16(p.page), uint16(0), 0)
	var handle, cqe uint32
	switch p.abi {
	case "ioctl":
		r, a6 := p.out(6, 4)
		cqn, u := p.out(0x1001, 8)
		list := [][]byte{at(0, 0, 0), p.in(1, le(n)), at(2, 8, 0xc0ffee), p.in(4, le(0)), a6, p.in(0x1000, drv), u}
		if channel >= 0 {
			list = append(list, at(3, 0, uint64(channel)))
		}
		as, e := p.ioctl(3, 0, list...)
		p.must(e)
		if u32(cqn, 0) == 0xeeeeeeee {
			p.t.Error("create_cq: no CQN")
		}
		handle, cqe = u32(as, 8), u32(r, 0)
	case "invoke":
		r, _, e := p.cmd(0x80000000|18, le(uint64(0xc0ffee), n, 0, uint32(channel), 0, 0, 0), 16, drv, 8)
		p.must(e)
		if u32(r, 12) != 16 {
			p.t.Errorf("create_cq: response_length %d", u32(r, 12))
		}
		handle, cqe = u32(r, 0), u32(r, 4)
	default:
		r, _, e := p.cmd(18, le(uint64(0), uint64(0xc0ffee), n, 0, uint32(channel), 0), 8, drv, 8)
		p.must(e)
		handle, cqe = u32(r, 0), u32(r, 4)
	}
	if int(cqe) < n {
		p.t.Errorf("create_cq: %d entries granted, want %d at least", cqe, n)
	}
	if cq, ok := p.x.Object(handle).(*hca.CQ); !ok || cq.User != 0xc0ffee || cq.Buf != buf || cq.DB != db ||
		cq.Entries != cqe+1 {
		p.t.Errorf("create_cq made %+v", p.x.Object(handle))
	}
	return handle
}

func (p *program) qpDriver(uidx int) []byte {
	_, buf := p.room(64*64*2, 4096)
	_, db := p.room(64, 64)
	return le(buf, db, 64, 16, 4, 1<<10, uidx, p.page, uint64(0), 0, uint8(0), uint8(0), uint16(0))
}

// qp makes an RC QP.
func (p *program) qp(pd, cq uint32) (handle, qpn uint32) {
	p.t.Helper()
	drv := p.qpDriver(0x123)
	caps := le(32, 10, 2, 1, 64)
	var e unix.Errno
	switch p.abi {
	case "ioctl":
		c, a13 := p.out(13, 20)
		n, a14 := p.out(14, 4)
		_, u := p.out(0x1001, 40)
		as, e := p.ioctl(4, 0, at(0, 0, 0), at(2, 0, uint64(pd)), at(4, 0, uint64(cq)), at(5, 0, uint64(cq)),
			at(7, 8, 0xbeef), p.in(8, caps), at(9, 8, 2), at(10, 4, 1<<12), a13, a14,
			p.in(0x1000, drv), u)
		p.must(e)
		if u32(c, 0) < 32 {
			p.t.Errorf("create_qp: capacity % x", c)
		}
		handle, qpn = u32(as, 8), u32(n, 0)
	case "invoke":
		r, _, e := p.cmd(0x80000000|24, le(uint64(0xbeef), pd, cq, cq, 0, caps, uint8(1), uint8(2), uint8(0), uint8(0),
			0, 0, 0, 0), 40, drv, 40)
		p.must(e)
		handle, qpn = u32(r, 0), u32(r, 4)
	default:
		var r []byte
		r, _, e = p.cmd(24, le(uint64(0), uint64(0xbeef), pd, cq, cq, 0, caps, uint8(1), uint8(2), uint8(0), uint8(0)),
			32, drv, 40)
		p.must(e)
		handle, qpn = u32(r, 0), u32(r, 4)
	}
	qp, ok := p.x.Object(handle).(*hca.QP)
	if !ok || qp.User != 0xbeef || qp.Num != qpn || qp.UIdx != 0x123 || !qp.SigAll || qp.Type != hca.RC ||
		qp.RQ.Count != 16 || qp.SQ.Count != 64 {
		p.t.Errorf("create_qp made %+v", p.x.Object(handle))
	}
	return handle, qpn
}

// modify is the body of modify_qp, what the test changes set by set.
func modify(handle uint32, mask hca.AttrMask, set func(b []byte)) []byte {
	b := make([]byte, 112)
	binary.LittleEndian.PutUint32(b[64:], handle)
	binary.LittleEndian.PutUint32(b[68:], uint32(mask))
	set(b)
	return b
}

func (p *program) modify(b []byte) unix.Errno {
	if p.abi == "write" {
		_, _, e := p.cmd(26, b, 0, nil, 0)
		return e
	}
	_, _, e := p.cmd(0x80000000|26, append(b, make([]byte, 8)...), 8, nil, 16)
	return e
}

// connect leads a QP from RESET to RTS, its peer being itself.
func (p *program) connect(handle, qpn uint32) {
	p.t.Helper()
	gid := p.x.Device.Ports[0].GID(3)
	p.must(p.modify(modify(handle, hca.AttrState|hca.AttrPKeyIndex|hca.AttrPort|hca.AttrAccess, func(b []byte) {
		b[88], b[96], b[104] = 0xf, 1, 1 // qp_access_flags, qp_state, port_num
	})))
	rtr := hca.AttrState | hca.AttrAV | hca.AttrPathMTU | hca.AttrDestQPN | hca.AttrRQPSN | hca.AttrMaxDestRdAtomic |
		hca.AttrMinRNRTimer
	p.must(p.modify(modify(handle, rtr, func(b []byte) {
		copy(b, gid.GID[:])
		b[24], b[25], b[30], b[31] = 3, 64, 1, 1 // sgid_index, hop_limit, is_global, port_num
		binary.LittleEndian.PutUint32(b[84:], qpn)
		// rq_psn, qp_state, path_mtu, max_dest_rd_atomic, min_rnr_timer
		b[76], b[96], b[98], b[102], b[103] = 77, 2, 3, 1, 12
	})))
	rts := hca.AttrState | hca.AttrTimeout | hca.AttrRetryCnt | hca.AttrRNRRetry | hca.AttrSQPSN | hca.AttrMaxRdAtomic
	p.must(p.modify(modify(handle, rts, func(b []byte) {
		// sq_psn, qp_state, max_rd_atomic, timeout, retry_cnt, rnr_retry
		b[80], b[96], b[101], b[105], b[106], b[107] = 78, 3, 1, 14, 7, 7
	})))
}

// Everything that the three interfaces share, by each of them: they must make and answer the same.
func TestLifecycle(t *testing.T) {
	for _, abi := range []string{"write", "invoke", "ioctl"} {
		t.Run(abi, func(t *testing.T) {
			p := open(t)
			p.abi = abi
			p.getContext()
			pd := p.pd()
			cq := p.cq(100, -1)
			qp, qpn := p.qp(pd, cq)
			p.connect(qp, qpn)
			p.x.Device.QP(qpn).Run.EPSN = 79 // two packets came

			r, _, e := p.cmd(25, le(uint64(0), qp, 0), 128, nil, 0)
			p.must(e)
			if u32(r, 96) != qpn || u32(r, 88) != 79 || r[108] != 3 || r[110] != 3 || r[117] != 14 || r[122] != 1 ||
				r[24] != 3 {
				t.Errorf("query_qp: % x", r)
			}
			// The ring has room for 16 receives of one piece each, whatever was asked for; of the send queue only the
			// library knows.
			if got := fmt.Sprint(u32(r, 64), u32(r, 68), u32(r, 72), u32(r, 76), u32(r, 80)); got != "0 16 0 1 0" {
				t.Errorf("query_qp: capacity %s", got)
			}
			if _, e := p.destroy(4, 1, pd, 0); e != unix.EBUSY {
				t.Errorf("dealloc_pd while in use: %v", e)
			}
			if _, e := p.destroy(20, 3, cq, 8); e != unix.EBUSY {
				t.Errorf("destroy_cq while in use: %v", e)
			}
			mem, start := p.room(8192, 4096)
			_ = mem
			r, _, e = p.cmd(9, le(uint64(0), start, uint64(8192), start, pd, 7), 12, nil, 0)
			p.must(e)
			mr := u32(r, 0)
			if k, ok := p.x.Object(mr).(*hca.MKey); !ok || k.Key != u32(r, 4) || k.Key != u32(r, 8) ||
				k.Addr != start || k.Len != 8192 || k.Access != 7 {
				t.Errorf("reg_mr: % x made %+v", r, p.x.Object(mr))
			}
			r, _, e = p.cmd(11, le(uint64(0), mr, 4, uint64(0), uint64(0), uint64(0), 0, 1), 8, nil, 0)
			p.must(e)
			if k := p.x.Object(mr).(*hca.MKey); k.Access != 1 || k.Key != u32(r, 0) {
				t.Errorf("rereg_mr: %+v", k)
			}
			r, _, e = p.cmd(14, le(uint64(0), pd, uint8(1), uint8(0), uint16(0)), 8, nil, 0)
			p.must(e)
			_, e = p.destroy(16, 8, u32(r, 0), 0)
			p.must(e)
			_, e = p.destroy(13, 7, mr, 0)
			p.must(e)
			_, e = p.destroy(13, 7, mr, 0)
			p.want("dereg_mr of what is gone", e, unix.ENOENT)
			r, e = p.destroy(27, 4, qp, 4)
			p.must(e)
			if u32(r, 0) != 0 {
				t.Errorf("destroy_qp: %d events", u32(r, 0))
			}
			r, e = p.destroy(20, 3, cq, 8)
			p.must(e)
			if u32(r, 0) != 0 || u32(r, 4) != 0 {
				t.Errorf("destroy_cq: % x", r)
			}
			_, e = p.destroy(4, 1, pd, 0)
			p.must(e)
			if l := hca.Leaked(p.x); len(l) != 0 && !(len(l) == 1 && l[0] == "1 UAR") {
				t.Errorf("left: %v", l)
			}
		})
	}
}

// createSRQ makes a basic SRQ of 15 receives, 2 SGEs and limit 3.
func (p *program) createSRQ(pd uint32) (handle, num uint32) { return p.srq(pd, false, 0, 0) }

// createXRCSRQ makes the same of an XRC domain.
func (p *program) createXRCSRQ(pd, xrcd, cq uint32) (handle, num uint32) {
	return p.srq(pd, true, xrcd, cq)
}

func (p *program) srqDriver() []byte {
	_, buf := p.room(4096, 4096)
	_, db := p.room(64, 64)
	return le(buf, db, 0, 0, 5, 0)
}

func (p *program) srq(pd uint32, xrc bool, x, c uint32) (handle, num uint32) {
	typ := 0
	if xrc {
		typ = 1
	}
	if p.abi == "ioctl" {
		wr, a11 := p.out(11, 4)
		_, a12 := p.out(12, 4)
		n, a13 := p.out(13, 4)
		_, u := p.out(0x1001, 8)
		list := [][]byte{at(0, 0, 0), at(1, 0, uint64(pd)), at(4, 8, 0xabc), p.in(5, le(15)),
			p.in(6, le(2)), p.in(7, le(3)), at(9, 8, uint64(typ)), a11, a12, a13,
			p.in(0x1000, p.srqDriver()), u}
		if xrc {
			list = append(list, at(2, 0, uint64(x)), at(3, 0, uint64(c)))
		}
		as, e := p.ioctl(5, 0, list...)
		p.must(e)
		if u32(wr, 0) != 15 {
			p.t.Errorf("create_srq: max_wr %d", u32(wr, 0))
		}
		return u32(as, 8), u32(n, 0)
	}
	core := le(uint64(0), uint64(0xabc), typ, pd, 15, 2, 3, 0, x, c)
	number := uint32(39)
	if !xrc {
		core, number = le(uint64(0), uint64(0xabc), pd, 15, 2, 3), 32
	}
	r, d, e := p.cmd(number, core, 16, p.srqDriver(), 8)
	p.must(e)
	if u32(r, 4) != 15 || u32(r, 8) < 2 || xrc && u32(r, 12) != u32(d, 0) {
		p.t.Errorf("create_srq: % x, % x", r, d)
	}
	return u32(r, 0), u32(d, 0)
}

// createXRCQP makes an XRC receive QP.
func (p *program) createXRCQP(xrcd uint32) (handle, num uint32) {
	if p.abi == "ioctl" {
		_, a13 := p.out(13, 20)
		n, a14 := p.out(14, 4)
		as, e := p.ioctl(4, 0, at(0, 0, 0), at(1, 0, uint64(xrcd)), at(7, 8, 0), p.in(8, make([]byte, 20)),
			at(9, 8, 10), a13, a14)
		p.must(e)
		return u32(as, 8), u32(n, 0)
	}
	r, _, e := p.cmd(24, le(uint64(0), uint64(0), xrcd, 0, 0, 0, make([]byte, 20), uint8(0), uint8(10),
		uint8(0), uint8(0)), 32, nil, 0)
	p.must(e)
	return u32(r, 0), u32(r, 4)
}

func TestSRQAndXRC(t *testing.T) {
	for _, abi := range []string{"write", "invoke", "ioctl"} {
		t.Run(abi, func(t *testing.T) {
			p := open(t)
			p.abi = abi
			p.getContext()
			pd, cq := p.pd(), p.cq(10, -1)
			file, err := os.CreateTemp(t.TempDir(), "xrc")
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			_, _, e := p.cmd(37, le(uint64(0), int(file.Fd()), 0), 4, nil, 0)
			p.want("open_xrcd without O_CREAT", e, unix.EAGAIN)
			_, _, e = p.cmd(37, le(uint64(0), 9999, unix.O_CREAT), 4, nil, 0)
			p.want("open_xrcd of no file", e, unix.EBADF)
			r, _, e := p.cmd(37, le(uint64(0), int(file.Fd()), unix.O_CREAT), 4, nil, 0)
			p.must(e)
			xrcd := u32(r, 0)

			basic, _ := p.createSRQ(pd)
			xrc, num := p.createXRCSRQ(pd, xrcd, cq)
			if s, ok := p.x.Object(xrc).(*hca.SRQ); !ok || !s.XRC || s.Num != num || s.UIdx != 5 || s.User != 0xabc ||
				s.Limit != 0 { // only modify_srq arms a limit
				t.Errorf("create_xsrq made %+v", p.x.Object(xrc))
			}
			r, _, e = p.cmd(34, le(uint64(0), basic, 0), 16, nil, 0)
			p.must(e)
			if u32(r, 0) != 15 || u32(r, 4) != 2 || u32(r, 8) != 0 { // as many pieces as were asked for
				t.Errorf("query_srq: % x", r)
			}
			_, _, e = p.cmd(33, le(basic, 2, 0, 7), 0, nil, 0)
			p.must(e)
			if s := p.x.Object(basic).(*hca.SRQ); s.Limit != 7 {
				t.Errorf("modify_srq: limit %d", s.Limit)
			}

			// An XRC receive QP has no driver's part; it can be opened again.
			qp, qpn := p.createXRCQP(xrcd)
			r, _, e = p.cmd(40, le(uint64(0), uint64(1), xrcd, qpn, uint8(10), make([]byte, 7)), 32, nil, 0)
			p.must(e)
			_, e = p.destroy(27, 4, u32(r, 0), 4)
			p.must(e)
			_, e = p.destroy(27, 4, qp, 4)
			p.must(e)
			for _, s := range []uint32{basic, xrc} {
				_, e = p.destroy(35, 5, s, 4)
				p.must(e)
			}
			_, e = p.destroy(38, 10, xrcd, 0)
			p.must(e)
		})
	}
}

func TestAddressHandleAndMulticast(t *testing.T) {
	p := open(t)
	p.getContext()
	pd, cq := p.pd(), p.cq(10, -1)
	gid := p.x.Device.Ports[0].GID(3)
	core := func(port uint8) []byte {
		return le(uint64(0), uint64(0), pd, 0, gid.GID[:], 0, uint8(3), uint8(1), uint8(0), uint8(0), uint16(0),
			uint8(0), uint8(0), uint8(0), uint8(1), port, uint8(0))
	}
	r, d, e := p.cmd(5, core(1), 4, nil, 16)
	p.must(e)
	if u32(d, 0) != 10 || [6]byte(d[4:10]) == [6]byte{} {
		t.Errorf("create_ah: driver's answer % x", d)
	}
	_, e = p.destroy(8, 6, u32(r, 0), 0)
	p.must(e)
	_, _, e = p.cmd(5, core(2), 4, nil, 16)
	p.want("create_ah on port 2 of 1", e, unix.EINVAL)
	_, _, e = p.cmd(5, core(1), 4, nil, 8)
	p.want("create_ah, little room", e, unix.EINVAL)

	r, _, e = p.cmd(24, le(uint64(0), uint64(0), pd, cq, cq, 0, le(32, 16, 2, 1, 64), uint8(1), uint8(4), uint8(0),
		uint8(0)), 32, p.qpDriver(1), 40)
	p.must(e)
	ud := u32(r, 0)
	group := le([]byte{0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, ud, uint16(0), uint16(0))
	_, _, e = p.cmd(30, group, 0, nil, 0)
	p.must(e)
	if g := p.x.Device.Group([16]byte(group)); len(g) != 1 || g[0].Handle != ud {
		t.Errorf("attach_mcast: group %v", g)
	}
	_, _, e = p.cmd(31, group, 0, nil, 0)
	p.must(e)
}

func TestCompletionChannel(t *testing.T) {
	for _, abi := range []string{"write", "invoke", "ioctl"} {
		p := open(t)
		p.abi = abi
		p.getContext()
		r, _, e := p.cmd(17, make([]byte, 8), 4, nil, 0)
		p.must(e)
		fd := int32(u32(r, 0))
		name := self{}.link(fd)
		p.s.f.Lock()
		channel := p.x.Channels[name]
		p.s.f.Unlock()
		if channel == nil {
			t.Fatalf("%s: descriptor %d leads to %q", abi, fd, name)
		}
		cq := p.cq(10, fd)
		if k := p.x.Object(cq).(*hca.CQ).Channel; k != channel {
			t.Errorf("%s: channel %v", abi, k)
		}
		unix.Close(int(fd))
	}
	p := open(t)
	p.getContext()
	_, _, e := p.cmd(0x80000000|18, le(uint64(0), 10, 0, uint32(0), 0, 0, 0), 16,
		le(uint64(0x1000), uint64(0x1000), 64, uint16(0), uint16(2), 0, 0), 8)
	p.want("create_cq, channel that is none", e, unix.EBADF)
}

func TestQueries(t *testing.T) {
	p := open(t, "mlx5_0,ports=2")
	p.abi = "invoke"
	_, _, e := p.cmd(0x80000000|1, make([]byte, 8), 304, nil, 104)
	p.want("query_device before get_context", e, unix.EINVAL)
	p.getContext()
	r, d, e := p.cmd(0x80000000|1, make([]byte, 8), 304, nil, 104)
	p.must(e)
	l := p.x.Device.Config.Limits
	if u64(r, 0) != 28<<32|39<<16|1002 || u32(r, 48) != 0 || int(u32(r, 52)) != l.MaxQP || u32(r, 180) != 304 ||
		u32(d, 4) != 104 || u64(r, 216) != clockKHz {
		t.Errorf("query_device: % x, % x", r, d)
	}
	if short, _, e := p.cmd(0x80000000|1, make([]byte, 8), 184, nil, 0); e != 0 || u32(short, 180) != 184 {
		t.Errorf("query_device of an older program: %v, length %d", e, u32(short, 180))
	}
	for port := uint64(0); port < 4; port++ {
		x, a := p.out(1, 48)
		_, e := p.ioctl(0, 2, at(0, 8, port), a)
		if ok := port == 1 || port == 2; ok != (e == 0) || ok && (x[26] != 4 || x[37] != 2 || u32(x, 44) != 128) {
			t.Errorf("query_port %d: %v, % x", port, e, x)
		}
	}
	x, a := p.out(3, 32)
	_, e = p.ioctl(0, 6, at(0, 8, 1), at(1, 8, 3), a)
	p.must(e)
	if g := p.x.Device.Ports[0].GID(3); [16]byte(x) != g.GID || u32(x, 16) != 3 || u32(x, 20) != 1 ||
		u32(x, 24) != uint32(g.Type) {
		t.Errorf("query_gid_entry: % x", x)
	}
	for _, c := range []struct {
		port, index int
		want        unix.Errno
	}{{1, 200, unix.ENODATA}, {1, 256, unix.EINVAL}, {3, 0, unix.EINVAL}} {
		_, e = p.ioctl(0, 6, at(0, 8, uint64(c.port)), at(1, 8, uint64(c.index)), a)
		p.want(fmt.Sprintf("query_gid_entry %d/%d", c.port, c.index), e, c.want)
	}
	table, a2 := p.out(2, 32*64)
	n, a3 := p.out(3, 8)
	_, e = p.ioctl(0, 5, at(0, 8, 32), a2, a3)
	p.must(e)
	want := 0
	for _, port := range p.x.Device.Ports {
		for _, g := range port.Config.GIDs {
			if !g.GID.IsZero() {
				want++
			}
		}
	}
	if want < 4 || u64(n, 0) != uint64(want) || u32(table, (want-1)*32+20) != 2 {
		t.Errorf("query_gid_table: %d entries, want %d; the last is % x", u64(n, 0), want, table[(want-1)*32:want*32])
	}
	_, a2 = p.out(2, 32)
	_, e = p.ioctl(0, 5, at(0, 8, 32), a2, a3)
	p.want("query_gid_table, little room", e, unix.EINVAL)
}

// What the kernel refuses, with its errno.
func TestRefusals(t *testing.T) {
	p := open(t)
	_, _, e := p.cmd(3, make([]byte, 8), 4, nil, 4)
	p.want("alloc_pd before get_context", e, unix.EINVAL)
	req := ucontextReq()
	req[8] = 2
	_, e = p.ioctl(0, 3, p.in(0x1000, req))
	p.want("get_context with a flag that is none", e, unix.EOPNOTSUPP)
	p.getContext() // the library goes on without
	_, e = p.ioctl(0, 3, p.in(0x1000, ucontextReq()))
	p.want("get_context again", e, unix.EINVAL)
	pd := p.pd()
	_, start := p.room(8192, 4096)
	reg := func(pd uint32, start, n, iova uint64, access int) unix.Errno {
		_, _, e := p.cmd(9, le(uint64(0), start, n, iova, pd, access), 12, nil, 0)
		return e
	}
	cq := p.cq(10, -1)
	_, _, e = p.cmd(0x80000000|24, le(uint64(0xbeef), pd, cq, cq, 0, le(32, 10, 2, 1, 64), uint8(1), uint8(0xff),
		uint8(0), uint8(0), 0, 0, 0, 0), 40, p.qpDriver(0x123), 40)
	p.want("create_qp of a driver's own kind without flags", e, unix.EINVAL)
	const dct, dci, stream = 1 << 4, 1 << 5, 1 << 11
	for flags, what := range map[int]string{dct | dci: "both DCT and DCI", dci: "a DCI with receives",
		dct: "a DCT without SRQ", dct | stream: "a DCT with streams", dci | 1<<12: "a DCI with an unknown flag"} {
		d := p.qpDriver(0x123)
		binary.NativeEndian.PutUint32(d[28:], uint32(flags))
		_, _, e := p.cmd(0x80000000|24, le(uint64(0xbeef), pd, cq, cq, 0, le(32, 10, 2, 1, 64), uint8(1), uint8(0xff),
			uint8(0), uint8(0), 0, 0, 0, 0), 40, d, 40)
		p.want("create_qp of "+what, e, unix.EINVAL)
	}
	for period, want := range map[uint16]unix.Errno{0: 0, 4095: 0, 4096: unix.EINVAL} {
		_, _, e := p.cmd(0x80000000|57, le(cq, 1, uint16(16), period, 0), 0, nil, 0)
		p.want(fmt.Sprintf("modify_cq, %d µs", period), e, want)
	}
	for _, c := range []struct {
		what                   string
		handle, mask, reserved int
		want                   unix.Errno
	}{
		{"of nothing", int(cq), 0, 0, unix.EINVAL},
		{"with a reserved field", int(cq), 1, 1, unix.EINVAL},
		{"of more than moderation", int(cq), 3, 0, unix.EOPNOTSUPP},
		{"of no CQ", 4711, 1, 0, unix.ENOENT},
	} {
		_, _, e := p.cmd(0x80000000|57, le(c.handle, c.mask, uint16(16), uint16(50), c.reserved), 0, nil, 0)
		p.want("modify_cq "+c.what, e, c.want)
	}
	p.want("reg_mr, remote write alone", reg(pd, start, 4096, start, 2), unix.EINVAL)
	p.want("reg_mr, iova elsewhere in its page", reg(pd, start, 4096, start+8, 1), unix.EINVAL)
	p.want("reg_mr, unknown right", reg(pd, start, 4096, start, 1<<10), unix.EINVAL)
	p.want("reg_mr, unknown hint", reg(pd, start, 4096, start, 1|1<<29), 0)
	p.want("reg_mr, no such domain", reg(4711, start, 4096, start, 1), unix.ENOENT)
	p.want("reg_mr, no memory there", reg(pd, 1<<46, 4096, 1<<46, 1), unix.EFAULT)

	for _, c := range []struct {
		name           string
		object, method int
		attrs          [][]byte
		want           unix.Errno
	}{
		{"a flow action", 13, 0, nil, unix.EPROTONOSUPPORT},
		{"device memory of a type that there is not", 14, 0, [][]byte{at(0, 0, 0), at(1, 8, 64), at(2, 4, 0),
			at(0x1002, 8, 5)}, unix.EOPNOTSUPP},
		{"device memory for steering", 14, 0, [][]byte{at(0, 0, 0), at(1, 8, 64), at(2, 4, 0), at(0x1002, 8, 1)},
			unix.EOPNOTSUPP},
		{"device memory without room for its place", 14, 0, [][]byte{at(0, 0, 0), at(1, 8, 64), at(2, 4, 0)},
			unix.EINVAL},
		{"region of no device memory", 7, 0, [][]byte{at(0, 0, 0), at(1, 8, 0), at(2, 8, 64), at(3, 0, uint64(pd)),
			at(4, 4, 32), at(5, 0, 4711), at(6, 4, start), at(7, 4, start)}, unix.ENOENT},
		{"region of a dma-buf that is closed", 7, 4, [][]byte{at(0, 0, 0), at(1, 0, uint64(pd)), at(2, 8, 0),
			at(3, 8, 64), at(4, 8, 0), at(5, 4, 4711), at(6, 4, 1), at(7, 4, start), at(8, 4, start)}, unix.EBADF},
		{"unknown advice", 7, 2, [][]byte{at(0, 0, uint64(pd)), at(1, 8, 3), at(2, 4, 0),
			p.in(3, make([]byte, 16))}, unix.EOPNOTSUPP},
		{"advice on a key that there is not", 7, 2, [][]byte{at(0, 0, uint64(pd)), at(1, 8, 0), at(2, 4, 0),
			p.in(3, make([]byte, 16))}, unix.ENOENT},
		{"an object that is not there", 0x100a, 0x1000, nil, unix.EPROTONOSUPPORT},
		{"a DevX command where DevX was not asked for", 0x1000, 0x1000,
			[][]byte{p.in(0x1000, []byte{1: 1, 15: 0}), at(0x1001, 16, start)}, unix.EINVAL},
		{"dealloc_pd of no handle", 1, 0, [][]byte{at(0, 0, 4711)}, unix.ENOENT},
		{"dealloc_pd of a wide handle", 1, 0, [][]byte{at(0, 0, 1<<32|uint64(pd))}, unix.ENOENT},
		{"destroy_ah of a PD", 6, 0, [][]byte{at(0, 0, uint64(pd))}, unix.EINVAL},
		{"uar of unknown type", 0x1008, 0x1000, [][]byte{at(0x1000, 0, 0), at(0x1001, 8, 7), at(0x1002, 8, start),
			at(0x1003, 4, start), at(0x1004, 4, start)}, unix.EOPNOTSUPP},
	} {
		_, e := p.ioctl(c.object, c.method, c.attrs...)
		p.want(c.name, e, c.want)
	}
	p.want("another ioctl", p.s.ioctl(p.who(), p.x, 0x5401, 0), unix.ENOTTY)
}

// An answer that cannot be written takes back what was made.
func TestUndo(t *testing.T) {
	p := open(t)
	p.getContext()
	before := len(p.x.Handles())
	_, e := p.ioctl(0, 0, p.in(0, make([]byte, 8)), at(2, 8, 3), at(1, 4, 1<<46))
	p.want("alloc_pd answered nowhere", e, unix.EFAULT)
	_, e = p.ioctl(0, 0, p.in(0, make([]byte, 8)), at(2, 8, 3), at(1, 8, p.put(nil)), at(0x1001, 4, 1<<46))
	p.want("alloc_pd, the driver's answer nowhere", e, unix.EFAULT)
	if n := len(p.x.Handles()); n != before {
		t.Errorf("%d objects, were %d", n, before)
	}
}

func TestMmap(t *testing.T) {
	p := open(t)
	const rw, ro, shared = unix.PROT_READ | unix.PROT_WRITE, unix.PROT_READ, unix.MAP_SHARED
	p.want("before get_context", p.s.mmap(p.x, 4096, ro, shared, 5<<20), unix.EINVAL)
	p.getContext()
	_, _, off := p.uar()
	for _, c := range []struct {
		name        string
		n           uint64
		prot, flags uint64
		off         uint64
		want        unix.Errno
	}{
		{"doorbells", 4096, unix.PROT_WRITE, shared, off, 0},
		{"doorbells of another", 4096, rw, shared, off + 4096*100, unix.EINVAL},
		{"two pages", 8192, rw, shared, off, unix.EINVAL},
		{"nothing", 0, rw, shared, off, unix.EINVAL},
		{"private", 4096, rw, unix.MAP_PRIVATE, off, unix.EINVAL},
		{"unaligned", 4096, rw, shared, off + 8, unix.EINVAL},
		{"clock", 4096, ro, shared, 5 << 20, 0},
		{"clock, written", 4096, rw, shared, 5 << 20, unix.EPERM},
		{"clock info", 4096, ro, shared, 7 << 20, 0},
		{"clock info, written", 4096, rw, shared, 7 << 20, unix.EPERM},
		{"clock info, version 2", 4096, ro, shared, 7<<20 + 4096, unix.EOPNOTSUPP},
		{"contiguous pages", 4096, rw, shared, 1 << 20, unix.EINVAL},
		{"page 0", 4096, rw, shared, 0, unix.EINVAL},
		{"far away", 4096, rw, shared, 1 << 62, unix.EINVAL},
	} {
		p.want(c.name, p.s.mmap(p.x, c.n, c.prot, c.flags, c.off), c.want)
	}
}

func TestFaultInjectionAndRemoval(t *testing.T) {
	p := open(t)
	p.getContext()
	w := &watch{deny: "alloc_pd", errno: unix.ENOMEM}
	p.s.f.Watch = w
	_, _, e := p.cmd(3, make([]byte, 8), 4, nil, 4)
	p.want("alloc_pd with an injected fault", e, unix.ENOMEM)
	w.deny = ""
	pd := p.pd()
	if fmt.Sprint(w.seen) != "[alloc_pd alloc_pd]" {
		t.Errorf("told of %v", w.seen)
	}
	p.x.Device.Gone = true
	_, e = p.ioctl(1, 0, at(0, 0, uint64(pd)))
	p.want("dealloc_pd of a removed device", e, unix.EIO)
	p.x.Device.Gone = false
}

// TestReplySpoiled spoils the answer to a query in each way, and the descriptor of a completion channel.
func TestReplySpoiled(t *testing.T) {
	for _, abi := range []string{"invoke", "write"} {
		p := open(t)
		p.abi = abi
		p.getContext()
		core := le(uint64(0), uint8(1), make([]byte, 7))
		good, _, e := p.cmd(2, core, 40, nil, 8)
		p.must(e)
		w := &watch{deny: "query_port"}
		p.s.f.Watch = w
		spoil := func(how hca.ReplyFault) (core, driver []byte) {
			t.Helper()
			w.reply = hca.Reply{How: how, Seed: 7}
			resp, drv, e := p.cmd(2, le(uint64(0), uint8(1), make([]byte, 7)), 40, nil, 8)
			p.must(e)
			return resp, drv
		}
		untouched := bytes.Repeat([]byte{0xee}, 20)
		if got, _ := spoil(hca.ReplyShort); !bytes.Equal(got[:20], good[:20]) || !bytes.Equal(got[20:], untouched) {
			t.Errorf("%s, short: % x", abi, got)
		}
		a, _ := spoil(hca.ReplyRandom)
		if b, _ := spoil(hca.ReplyRandom); bytes.Equal(a, good) || !bytes.Equal(a, b) {
			t.Errorf("%s, random: % x and % x", abi, a, b)
		}
		if w.reply.How = hca.ReplyLong; abi == "invoke" {
			got, _, e := p.cmd(2, core, 48, nil, 0) // room for 8 bytes more
			p.must(e)
			if !bytes.Equal(got, append(bytes.Clone(good), bytes.Repeat([]byte{0xff}, 8)...)) {
				t.Errorf("%s, long: % x", abi, got)
			}
		}
	}
	r := hca.Reply{How: hca.ReplyLong}
	if n := r.Taken(16); n <= 16 {
		t.Errorf("a write() of 16 bytes takes %d", n)
	}
	r = hca.Reply{How: hca.ReplyRandom}
	for range 1000 {
		if fd := u32(r.Bytes(make([]byte, 4)), 0); fd < 0x10101010 {
			t.Fatalf("%#x may be a descriptor of the program", fd)
		}
	}
}

type watch struct {
	deny  string
	errno unix.Errno
	reply hca.Reply
	seen  []string
}

func (w *watch) Command(_ *hca.Context, name string) (unix.Errno, hca.Reply) {
	w.seen = append(w.seen, name)
	if name == w.deny {
		return w.errno, w.reply
	}
	return 0, hca.Reply{}
}
func (w *watch) Violation(int, string, string)             {}
func (w *watch) Event(*hca.Context, hca.EventType, uint64) {}

func TestTrace(t *testing.T) {
	p := open(t)
	var got []string
	p.s.Trace = func(r *Record) {
		got = append(got, fmt.Sprintf("%s %v -> %v %v", r.Name, Fields(r.Request), Fields(r.Response), r.Errno))
	}
	p.getContext()
	pd := p.pd()
	p.abi = "ioctl"
	p.destroy(4, 1, pd, 0)
	if len(got) != 5 || got[3] != fmt.Sprintf("alloc_pd [] -> [{Handle %d}] errno 0", pd) ||
		got[4] != fmt.Sprintf("dealloc_pd [{Handle %d}] -> [] errno 0", pd) {
		t.Errorf("got %q", got)
	}
}

func TestClock(t *testing.T) {
	p := open(t)
	k := &p.s.lookup(p.x.File.Name()).clock
	read := func() uint64 {
		return uint64(binary.BigEndian.Uint32(k.core[clockOffset:]))<<32 |
			uint64(binary.BigEndian.Uint32(k.core[clockOffset+4:]))
	}
	before := engine.Clock()
	p.s.Tick()
	if v := read(); v < before || v > engine.Clock() {
		t.Errorf("clock %d, the time is %d", v, before)
	}
	i := k.info
	if i.Sign&1 != 0 || i.Mult>>i.Shift != 1 || i.Mask != clockMask || i.Nsec < 1e18 {
		t.Errorf("clock info %+v", *i)
	}
}

// Each command that can be sent has somebody to answer it.
func TestEveryCommandHasAHandler(t *testing.T) {
	for _, m := range uapi.Methods {
		if verbs[m.Name] == nil && m.Name != "invoke_write" {
			t.Errorf("method %s has none", m.Name)
		}
	}
	for _, k := range uapi.Cmds {
		if verbs[k.Name] == nil {
			t.Errorf("command %s has none", k.Name)
		}
	}
}

// Random requests must not panic, hang, or leave the supervisor's lock held.
func FuzzServer(f *testing.F) {
	for _, m := range uapi.Methods {
		b := le(uint16(24+16*len(m.Attrs)), m.Object, m.ID, uint16(len(m.Attrs)), uint64(0), uint32(1), uint32(0))
		for _, s := range m.Attrs {
			b = append(b, at(int(s.ID), int(s.Min), 1)...)
		}
		f.Add(b, true)
	}
	for _, k := range uapi.Cmds {
		n := (k.Req + 7) &^ 7
		f.Add(le(k.Number, uint16((8+n)/4), uint16(64), make([]byte, n)), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, ioctl bool) {
		if len(b) > 8192 {
			return
		}
		p := open(t)
		p.getContext()
		p.pd()
		// A page for everything that the request points to by small numbers.
		mem := window{base: 1, b: append(append(make([]byte, 0, 16384), b...), make([]byte, 4096)...)}
		if ioctl {
			p.s.ioctl(&answered{caller: mem}, p.x, uapi.VerbsIoctl, 1)
		} else {
			p.s.write(&answered{caller: mem}, p.x, 1, uint64(len(b)))
		}
		if !p.s.f.TryLock() {
			t.Fatal("the lock is held")
		}
		p.s.f.Unlock()
	})
}

// window is a program whose memory is b alone, and that cannot be given descriptors.
type window struct {
	base uint64
	b    []byte
}

func (w window) at(addr uint64, n int) ([]byte, error) {
	if addr < w.base || addr-w.base > uint64(len(w.b)) || uint64(n) > uint64(len(w.b))-(addr-w.base) {
		return nil, unix.EFAULT
	}
	return w.b[addr-w.base:][:n], nil
}

func (w window) Read(addr uint64, b []byte) error {
	p, err := w.at(addr, len(b))
	copy(b, p)
	return err
}

func (w window) Write(addr uint64, b []byte) error {
	p, err := w.at(addr, len(b))
	copy(p, b)
	return err
}

func (w window) WriteSpans(all []uapi.Span) error { return writeEach(w, all) }

func (window) mem() guest.Mem                     { return guest.Mem{PID: os.Getpid()} }
func (window) link(int32) string                  { return "" }
func (window) stat(int32) (uint64, uint64, error) { return 0, 0, unix.EBADF }
func (window) id() int                            { return 0 }
func (window) capable(int) bool                   { return true }
func (window) install(int) (int, error)           { return 0, unix.EMFILE }

// child is a caller in another process than the one that opened the device.
type child struct {
	self
	pid int
}

func (c child) mem() guest.Mem { return guest.Mem{PID: c.pid} }

// The addresses that a forked child registers are its own.
func TestForkedChild(t *testing.T) {
	p := open(t)
	p.getContext()
	pd := p.pd()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	_, start := p.room(4096, 4096)
	resp := p.put(make([]byte, 16))
	b := p.put(le(9, uint16(12), uint16(3), resp, start, uint64(4096), start, pd, 1))
	forked := child{self{Memory: guest.Mem{PID: os.Getpid()}}, cmd.Process.Pid}
	if e := p.s.write(&answered{caller: forked}, p.x, b, 48); e != unix.EFAULT {
		t.Errorf("reg_mr of what only the parent has mapped: %v, want EFAULT", e)
	}
	if e := p.s.write(p.who(), p.x, b, 48); e != 0 {
		t.Errorf("reg_mr by the parent: %v", e)
	}
	if p.x.Mem.PID != os.Getpid() {
		t.Errorf("the context's memory is that of %d", p.x.Mem.PID)
	}
}

// together is a caller that writes all answers of a command at once.
type together struct {
	self
	spans []uapi.Span
}

func (t *together) Write(uint64, []byte) error { return errors.New("an answer was written on its own") }

func (t *together) WriteSpans(all []uapi.Span) error {
	t.spans = append(t.spans, all...)
	return nil
}

// TestAnswered_WriteSpans: what a caller can write at once is written at once, spoiled or not.
func TestAnswered_WriteSpans(t *testing.T) {
	for how, n := range map[hca.ReplyFault]int{hca.ReplyGood: 8, hca.ReplyShort: 4} {
		to := new(together)
		who := &answered{caller: to, Reply: hca.Reply{How: how}}
		err := who.WriteSpans([]uapi.Span{{Addr: 1, Bytes: make([]byte, 8)}, {Addr: 9, Bytes: make([]byte, 8)}})
		if err != nil {
			t.Errorf("%d: %v", how, err)
		}
		if len(to.spans) != 2 || len(to.spans[0].Bytes) != n || len(to.spans[1].Bytes) != n {
			t.Errorf("%d: %+v, want two of %d bytes", how, to.spans, n)
		}
	}
}
