//go:build linux

package hca

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// nobody is an engine that only counts what it is told.
type nobody struct {
	qps, cqs, srqs, revoked, left int
	unpolled                      uint32
}

func (n *nobody) UARAdded(*UAR)                         {}
func (n *nobody) UARRemoved(*UAR)                       {}
func (n *nobody) QPCreated(*QP)                         { n.qps++ }
func (n *nobody) QPLeaves(*QP)                          { n.left++ }
func (n *nobody) QPModified(*QP, QPState, QPState)      {}
func (n *nobody) QPDestroyed(*QP)                       { n.qps-- }
func (n *nobody) StreamReset(*QP, uint16)               {}
func (n *nobody) CQCreated(*CQ)                         { n.cqs++ }
func (n *nobody) CQDestroyed(*CQ)                       { n.cqs-- }
func (n *nobody) CQResized(*CQ, uint64, uint32, uint32) {}
func (n *nobody) SRQCreated(*SRQ)                       { n.srqs++ }
func (n *nobody) SRQDestroyed(*SRQ)                     { n.srqs-- }
func (n *nobody) SRQLimitArmed(*SRQ)                    {}
func (n *nobody) CQUnpolled(*CQ) uint32                 { return n.unpolled }
func (n *nobody) KeyRevoked(*MKey)                      { n.revoked++ }
func (n *nobody) PortChanged(*Port)                     {}

// room is memory of this process that programs could have.
type room struct {
	base, size uint64
}

type bench struct {
	*testing.T
	f   *Fabric
	eng *nobody
	mem room
}

func newBench(t *testing.T, devices ...string) *bench {
	t.Helper()
	c := config.Default()
	if len(devices) > 0 {
		var err error
		if c, err = config.Parse(devices); err != nil {
			t.Fatal(err)
		}
	}
	f := New(c)
	b := &bench{T: t, f: f, eng: &nobody{}}
	f.Engine = b.eng
	m, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	b.mem = room{addressOf(m), uint64(len(m))}
	return b
}

func (b *bench) open(device int) *Context {
	b.Helper()
	f, err := guest.NewFile("emu-hca-test", 1<<24)
	if err != nil {
		b.Fatal(err)
	}
	c := b.f.Devices[device].Open(os.Getpid(), f)
	b.Cleanup(func() { c.Release(); f.Close() })
	return c
}

// is checks an errno.
func (b *bench) is(what string, got, want unix.Errno) {
	b.Helper()
	if got != want {
		b.Errorf("%s: %v, want %v", what, got, want)
	}
}

// got is a value whose making must succeed.
func got[T any](v T, e unix.Errno) func(*bench) T {
	return func(b *bench) T {
		b.Helper()
		if e != 0 {
			b.Fatalf("%T: %v", v, e)
		}
		return v
	}
}

func (b *bench) cqInit() *CQInit {
	return &CQInit{Entries: 15, Buf: b.mem.base, DB: b.mem.base + 8192, CQESize: 64, UAR: -1}
}

func (b *bench) qpInit(pd *PD, cq *CQ, uar *UAR, typ QPType) *QPInit {
	return &QPInit{PD: pd.Handle, Type: typ, SendCQ: cq.Handle, RecvCQ: cq.Handle,
		Cap: QPCap{SendWR: 4, RecvWR: 4, SendSGE: 1, RecvSGE: 1},
		Buf: b.mem.base + 16384, DB: b.mem.base + 12288, SQCount: 4, RQCount: 4, RQShift: 4, UARPage: uar.Index}
}

func (b *bench) srqInit(pd *PD) *SRQInit {
	return &SRQInit{PD: pd.Handle, MaxWR: 15, MaxSGE: 1, Buf: b.mem.base + 32768, DB: b.mem.base + 40960}
}

// set is what a context needs for queues.
type set struct {
	c   *Context
	pd  *PD
	cq  *CQ
	uar *UAR
}

func (b *bench) set(device int) set {
	b.Helper()
	c := b.open(device)
	return set{c, got(c.AllocPD())(b), got(c.CreateCQ(b.cqInit()))(b), got(c.AllocUAR(0))(b)}
}

// TestCreateAH resolves addresses as ib_core does: ib_resolve_eth_dmac, rdma_resolve_ip.
func TestCreateAH(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	p := b.f.Devices[0].Ports[0]
	mac := [6]byte(p.Config.MAC)
	const v1, local, v4, v6 = 0, 1, 3, 5 // the table has link-local, IPv4 and IPv6 addresses, for v1 and then for v2
	for _, x := range []struct {
		name string
		sgid int
		dgid string
		want unix.Errno
		mac  [6]byte
	}{
		{"IPv4", v4, p.GID(v4).GID.IP().String(), 0, mac},
		{"IPv6", v6, p.GID(v6).GID.IP().String(), 0, mac},
		{"link-local", local, p.GID(local).GID.IP().String(), 0, mac},
		{"link-local of v1", v1, "fe80::211:22ff:fe33:4455", 0, [6]byte{0, 0x11, 0x22, 0x33, 0x44, 0x55}},
		{"IPv6 group", v6, "ff12::1:2:3", 0, [6]byte{0x33, 0x33, 0, 2, 0, 3}},
		{"IPv4 group", v4, "239.129.2.3", 0, [6]byte{1, 0, 0x5e, 1, 2, 3}},
		{"IPv4 to IPv6", v4, "fd00:88::1", unix.EINVAL, [6]byte{}},
		{"IPv6 to IPv4", v6, "10.88.0.1", unix.EINVAL, [6]byte{}},
		{"zero from IPv4", v4, "::", unix.EINVAL, [6]byte{}},
		{"zero from IPv6", v6, "::", unix.ENETUNREACH, [6]byte{}},
		{"0.0.0.0", v4, "0.0.0.0", unix.ENODEV, [6]byte{}},
		{"nobody", v4, "10.88.0.99", unix.ETIMEDOUT, [6]byte{}},
		{"nobody beyond the link", v4, "192.0.2.1", unix.ETIMEDOUT, [6]byte{}},
		{"no IPv6 neighbour", v6, "fd00:88::99", unix.ETIMEDOUT, [6]byte{}},
		{"no link-local neighbour", local, "fe80::99", unix.ETIMEDOUT, [6]byte{}},
		{"no IPv6 route", v6, "2001:db8::1", unix.ENETUNREACH, [6]byte{}},
		{"empty GID", 200, "10.88.0.1", unix.ENODATA, [6]byte{}},
	} {
		gid, err := config.ParseAddr(x.dgid)
		if err != nil {
			t.Fatal(err)
		}
		ah, e := s.c.CreateAH(s.pd.Handle, 0, &AHAttr{Port: 1, Global: true, SGIDIndex: uint8(x.sgid), DGID: gid})
		if e != x.want || e == 0 && ah.Attr.DMAC != x.mac {
			t.Errorf("%s, to %s: %v, %+v; want %v, %x", x.name, x.dgid, e, ah, x.want, x.mac)
		}
	}
}

// TestReferences destroys in the wrong order, then in the right one.
func TestReferences(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	c := s.c
	srq := got(c.CreateSRQ(b.srqInit(s.pd)))(b)
	init := b.qpInit(s.pd, s.cq, s.uar, RC)
	init.SRQ, init.RQCount, init.RQShift = srq.Handle, 0, 0
	qp := got(c.CreateQP(init))(b)
	mr := got(c.RegMR(s.pd.Handle, b.mem.base, 4096, b.mem.base, AccessLocalWrite|AccessMWBind))(b)
	mw := got(c.AllocMW(s.pd.Handle, 2))(b)
	mw.Bind(mr, b.mem.base, b.mem.base, 64, AccessRemoteRead, qp.Num, 9)
	ah := got(c.CreateAH(s.pd.Handle, 0, &AHAttr{Port: 1, Global: true, SGIDIndex: 3, HopLimit: 1,
		DGID: b.f.Devices[0].Ports[0].GID(3).GID}))(b)
	cq := func() unix.Errno { _, _, e := c.DestroyCQ(s.cq.Handle); return e }
	srqs := func() unix.Errno { _, e := c.DestroySRQ(srq.Handle); return e }
	for _, x := range []struct {
		what string
		do   func() unix.Errno
	}{{"pd", func() unix.Errno { return c.DeallocPD(s.pd.Handle) }}, {"cq", cq}, {"srq", srqs},
		{"mr", func() unix.Errno { return c.DeregMR(mr.Handle) }}} {
		b.is(x.what, x.do(), unix.EBUSY)
	}
	_, e := c.DestroyQP(qp.Handle)
	b.is("qp", e, 0)
	b.is("mw", c.DeallocMW(mw.Handle), 0)
	b.is("mr", c.DeregMR(mr.Handle), 0)
	b.is("srq", srqs(), 0)
	b.is("cq", cq(), 0)
	b.is("pd with ah", c.DeallocPD(s.pd.Handle), unix.EBUSY)
	b.is("ah", c.DestroyAH(ah.Handle), 0)
	b.is("pd", c.DeallocPD(s.pd.Handle), 0)
	b.is("pd again", c.DeallocPD(s.pd.Handle), unix.ENOENT)
	if l := c.Leaked(); len(l) > 0 {
		t.Errorf("left: %v", l)
	}
	if *b.eng != (nobody{revoked: b.eng.revoked, left: b.eng.left}) {
		t.Errorf("the engine still has %+v", *b.eng)
	}
}

// TestHandles uses handles of other kinds, of other contexts, and of nothing.
func TestHandles(t *testing.T) {
	b := newBench(t, "mlx5_0", "mlx5_1")
	s, other := b.set(0), b.set(1)
	mr := got(s.c.RegMR(s.pd.Handle, b.mem.base, 64, b.mem.base, 0))(b)
	all := map[string]func(h uint32) unix.Errno{
		"dealloc_pd":  s.c.DeallocPD,
		"dereg_mr":    s.c.DeregMR,
		"dealloc_mw":  s.c.DeallocMW,
		"destroy_ah":  s.c.DestroyAH,
		"close_xrcd":  s.c.CloseXRCD,
		"destroy_cq":  func(h uint32) unix.Errno { _, _, e := s.c.DestroyCQ(h); return e },
		"destroy_qp":  func(h uint32) unix.Errno { _, e := s.c.DestroyQP(h); return e },
		"destroy_srq": func(h uint32) unix.Errno { _, e := s.c.DestroySRQ(h); return e },
		"modify_qp":   func(h uint32) unix.Errno { return s.c.ModifyQP(h, &QPAttr{}, AttrState, Reset) },
		"reg_mr":      func(h uint32) unix.Errno { _, e := s.c.RegMR(h, b.mem.base, 64, b.mem.base, 0); return e },
	}
	own := map[uint32]string{s.pd.Handle: "dealloc_pd reg_mr", s.cq.Handle: "destroy_cq", mr.Handle: "dereg_mr"}
	for name, do := range all {
		for _, h := range []uint32{0, s.pd.Handle, s.cq.Handle, s.uar.Handle, mr.Handle, 77, 1 << 31, ^uint32(0)} {
			if strings.Contains(own[h], name) {
				continue
			}
			want := unix.EINVAL
			if s.c.Object(h) == nil {
				want = unix.ENOENT
			}
			if e := do(h); e != want {
				t.Errorf("%s of %d (%T): %v, want %v", name, h, s.c.Object(h), e, want)
			}
		}
	}
	// Handles count from 1 in each context; a number of the other device is another object here, or none.
	if _, e := other.c.Key(mr.Handle); e != unix.ENOENT {
		t.Errorf("the other context finds the MR: %v", e)
	}
	if other.c.Device.Key(mr.Key) != nil {
		t.Error("the other device knows the key")
	}
	if s.c.Device.Key(mr.Key) != mr || s.c.Device.Key(mr.Key^1) != nil {
		t.Error("a key is known by its number, variant included, and by nothing else")
	}
}

// TestNoSRQ asks devices for an SRQ that have none.
func TestNoSRQ(t *testing.T) {
	for _, limit := range []string{"max_srq=0", "max_srq_wr=0"} {
		b := newBench(t, "mlx5_0,"+limit)
		s := b.set(0)
		if _, e := s.c.CreateSRQ(b.srqInit(s.pd)); e != unix.EOPNOTSUPP {
			t.Errorf("%s: %v, want EOPNOTSUPP", limit, e)
		}
	}
}

// TestLimits reaches each limit, and gives back.
func TestLimits(t *testing.T) {
	b := newBench(t, "mlx5_0,max_qp=2,max_cq=2,max_mr=2,max_mw=1,max_pd=2,max_srq=1,max_ah=1,"+
		"max_xrcd=1,max_qp_wr=8,max_cqe=31,max_sge=2,max_srq_wr=15,max_uar=3")
	s := b.set(0)
	c := s.c
	full := func(what string, make func() unix.Errno) {
		t.Helper()
		for n := 0; ; n++ {
			e := make()
			if e == unix.ENOMEM {
				return
			}
			if e != 0 || n > 10 {
				t.Fatalf("%s: %v after %d, want ENOMEM at the limit", what, e, n)
			}
		}
	}
	full("mr", func() unix.Errno { _, e := c.RegMR(s.pd.Handle, b.mem.base, 64, b.mem.base, 0); return e })
	full("mw", func() unix.Errno { _, e := c.AllocMW(s.pd.Handle, 1); return e })
	full("cq", func() unix.Errno { _, e := c.CreateCQ(b.cqInit()); return e })
	full("srq", func() unix.Errno { _, e := c.CreateSRQ(b.srqInit(s.pd)); return e })
	full("pd", func() unix.Errno { _, e := c.AllocPD(); return e })
	gone := b.qpInit(s.pd, s.cq, s.uar, RC)
	for what, change := range map[string]func(*QPInit){
		"send wr":  func(i *QPInit) { i.Cap.SendWR = 9 },
		"recv sge": func(i *QPInit) { i.Cap.RecvSGE = 3 },
		"sq of 3":  func(i *QPInit) { i.SQCount = 3 },
		"rq shift": func(i *QPInit) { i.RQShift = 13 },
		"no uar":   func(i *QPInit) { i.UARPage = 99 },
	} {
		i := *gone
		change(&i)
		_, e := c.CreateQP(&i)
		b.is(what, e, unix.EINVAL)
	}
	i := *gone
	i.Buf = 4096 // nothing is mapped there
	_, e := c.CreateQP(&i)
	b.is("unmapped ring", e, unix.EFAULT)
	full("qp", func() unix.Errno { _, e := c.CreateQP(gone); return e })
	q := b.cqInit()
	q.Entries = 32
	_, e = c.CreateCQ(q)
	b.is("cqe", e, unix.EINVAL)

	b.f.Config.MemlockLimit = 8192
	b2 := newBench(t)
	b2.f.Config.MemlockLimit = 8192
	s2 := b2.set(0)
	mr := got(s2.c.RegMR(s2.pd.Handle, b2.mem.base, 8192, b2.mem.base, 0))(b2)
	_, e = s2.c.RegMR(s2.pd.Handle, b2.mem.base, 1, b2.mem.base, 0)
	b.is("beyond memlock", e, unix.ENOMEM)
	_, e = s2.c.ReregMR(mr.Handle, reregTrans, 0, b2.mem.base, 4096, b2.mem.base, 0)
	b.is("smaller", e, 0)
	_, e = s2.c.RegMR(s2.pd.Handle, b2.mem.base, 1, b2.mem.base, 0)
	b.is("room again", e, 0)
}

// TestMR looks at rights, bounds, keys and registrations that change.
func TestMR(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	c := s.c
	reg := func(addr, n, iova uint64, a Access) unix.Errno {
		_, e := c.RegMR(s.pd.Handle, addr, n, iova, a)
		return e
	}
	b.is("nothing", reg(b.mem.base, 0, b.mem.base, 0), unix.EINVAL)
	b.is("around the end", reg(^uint64(0)-4095, 8192, ^uint64(0)-4095, 0), unix.EINVAL)
	b.is("remote write alone", reg(b.mem.base, 64, b.mem.base, AccessRemoteWrite), unix.EINVAL)
	b.is("unknown right", reg(b.mem.base, 64, b.mem.base, 1<<15), unix.EINVAL)
	b.is("on demand, unmapped", reg(4096, 64, 4096, AccessOnDemand), 0)
	b.is("the whole address space elsewhere", reg(0, ^uint64(0), 4096, AccessOnDemand), unix.EINVAL)
	b.is("another offset in the page", reg(b.mem.base, 64, b.mem.base+1, 0), unix.EINVAL)
	b.is("unmapped", reg(4096, 64, 4096, 0), unix.EFAULT)
	b.is("half unmapped", reg(b.mem.base+b.mem.size-4096, 1<<30, b.mem.base+b.mem.size-4096, 0), unix.EFAULT)

	k := got(c.RegMR(s.pd.Handle, b.mem.base+100, 1000, b.mem.base+100, AccessLocalWrite|AccessRemoteRead))(b)
	for _, tt := range []struct {
		addr, n uint64
		need    Access
		ok      bool
	}{
		{b.mem.base + 100, 1000, AccessLocalWrite, true}, {b.mem.base + 1100, 0, 0, true},
		{b.mem.base + 99, 1, 0, false}, {b.mem.base + 100, 1001, 0, false},
		{b.mem.base + 1099, 2, 0, false}, {b.mem.base + 100, ^uint64(0), 0, false}, {^uint64(0), 2, 0, false},
		{b.mem.base + 100, 1, AccessRemoteWrite, false},
	} {
		if va, ok := k.Resolve(tt.addr, tt.n, tt.need); ok != tt.ok || ok && va != tt.addr {
			t.Errorf("%#x+%d: %#x %v", tt.addr, tt.n, va, ok)
		}
	}
	old, revoked := k.Key, b.eng.revoked
	_, e := c.ReregMR(k.Handle, 0, 0, 0, 0, 0, 0)
	b.is("no change", e, unix.EINVAL)
	_, e = c.ReregMR(k.Handle, reregPD, 99, 0, 0, 0, 0)
	b.is("no such pd", e, unix.ENOENT)
	_, e = c.ReregMR(k.Handle, reregTrans, 0, 4096, 64, 4096, 0)
	b.is("to unmapped memory", e, unix.EFAULT)
	if c.Device.Key(old) != k {
		t.Error("a change that failed changed the key")
	}
	pd2 := got(c.AllocPD())(b)
	_, e = c.ReregMR(k.Handle, reregTrans|reregAccess|reregPD, pd2.Handle, b.mem.base, 4*4096, b.mem.base,
		AccessLocalWrite|AccessRemoteWrite)
	b.is("moved, within the table", e, 0)
	if c.Device.Key(old) != k || k.Key != old || b.eng.revoked != revoked+1 || k.PD != pd2 || k.Addr != b.mem.base ||
		k.Len != 4*4096 {
		t.Errorf("%+v", k)
	}
	b.is("the PD that it left", c.DeallocPD(pd2.Handle), unix.EBUSY)
	_, e = c.ReregMR(k.Handle, reregAccess, 0, 0, 0, 0, AccessRemoteRead|AccessRelaxed)
	b.is("other rights", e, 0)
	_, e = c.ReregMR(k.Handle, reregPD, s.pd.Handle, 0, 0, 0, 0)
	b.is("another PD", e, 0)
	if k.Key != old || k.PD != s.pd || k.Access != AccessRemoteRead|AccessRelaxed || k.Len != 4*4096 {
		t.Errorf("%+v", k)
	}
	b.is("the PD that it left", c.DeallocPD(pd2.Handle), 0)
	for what, change := range map[string]func() unix.Errno{
		"larger than the table": func() unix.Errno {
			_, e := c.ReregMR(k.Handle, reregTrans, 0, b.mem.base+4095, 4*4096-4094, b.mem.base+4095, 0)
			return e
		},
		"rights that no UMR changes": func() unix.Errno {
			_, e := c.ReregMR(k.Handle, reregAccess, 0, 0, 0, 0, k.Access^AccessHugeTLB)
			return e
		},
	} {
		old := k.Key
		b.is(what, change(), 0)
		if c.Device.KeyAt(old>>8) != nil || c.Device.Key(k.Key) != k || k.Key>>8 == old>>8 {
			t.Errorf("%s: key %#x became %#x", what, old, k.Key)
		}
	}
	zero := got(c.RegMR(s.pd.Handle, b.mem.base+16, 64, b.mem.base+16, AccessZeroBased))(b)
	if va, ok := zero.Resolve(8, 8, 0); !ok || va != b.mem.base+24 {
		t.Errorf("zero-based: %#x %v", va, ok)
	}
	// A key's place may be used again, its number not at once.
	b.is("dereg", c.DeregMR(k.Handle), 0)
	gone := k.Key
	for range 100 {
		n := got(c.RegMR(s.pd.Handle, b.mem.base, 64, b.mem.base, 0))(b)
		if n.Key == gone {
			t.Fatal("a key came back at once")
		}
		b.is("dereg", c.DeregMR(n.Handle), 0)
	}
}

// TestResizeCQ asks for what there is no room for.
func TestResizeCQ(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	resize := func(n uint32) unix.Errno {
		_, e := s.c.ResizeCQ(s.cq.Handle, n, b.mem.base+65536, 64)
		return e
	}
	b.is("to nothing", resize(0), unix.EINVAL)
	b.is("of 16 to 16", resize(12), 0)
	if s.cq.Buf != b.mem.base {
		t.Error("a size that it has moved the CQ")
	}
	b.eng.unpolled = 8
	b.is("eight into eight", resize(7), unix.EINVAL)
	b.eng.unpolled = 16
	b.is("a full one", resize(31), unix.EINVAL)
	if s.cq.Entries != 16 || s.cq.Buf != b.mem.base {
		t.Errorf("a resize that failed left %+v", s.cq)
	}
	b.eng.unpolled = 7
	b.is("seven into eight", resize(7), 0)
	if s.cq.Entries != 8 || s.cq.Buf != b.mem.base+65536 {
		t.Errorf("%+v", s.cq)
	}
}

// TestEventsNobodyTakes destroys a CQ whose program never asked for events: it has none to acknowledge, and would wait
// for ever to be told of one.
func TestEventsNobodyTakes(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	s.cq.Event(EventCQErr)
	if _, n, e := s.c.DestroyCQ(s.cq.Handle); n != 0 || e != 0 {
		t.Errorf("%d events, %v", n, e)
	}
}

// TestRelease ends contexts with everything in them; another one stays as it is.
func TestRelease(t *testing.T) {
	b := newBench(t)
	d := b.f.Devices[0]
	keep := b.set(0)
	for range 3 {
		s := b.set(0)
		c := s.c
		h, _, _, e := c.OpenXRCD(0, 0, unix.O_CREAT)
		b.is("xrcd", e, 0)
		srq := got(c.CreateSRQ(b.srqInit(s.pd)))(b)
		qp := got(c.CreateQP(b.qpInit(s.pd, s.cq, s.uar, UD)))(b)
		x := b.qpInit(s.pd, s.cq, s.uar, XRCRecv)
		x.XRCD = h
		got(c.CreateQP(x))(b)
		b.is("attach", c.AttachMcast(qp.Handle, [16]byte{0xff, 0x12, 15: 7}, 0), 0)
		mr := got(c.RegMR(s.pd.Handle, b.mem.base, 64, b.mem.base, AccessMWBind))(b)
		mw := got(c.AllocMW(s.pd.Handle, 1))(b)
		mw.Bind(mr, b.mem.base, b.mem.base, 8, 0, 0, 1)
		_ = srq
		if l := strings.Join(c.Leaked(), ", "); l != "2 QPs, 1 SRQ, 1 CQ, 1 MW, 1 MR, 1 XRCD, 1 PD" {
			t.Errorf("leaked %s", l)
		}
		c.Release()
		c.Release() // does nothing
		if len(c.Handles()) != 0 {
			t.Errorf("left: %v", c.Leaked())
		}
	}
	if d.liveQPs != 0 || d.liveCQs != 1 || d.liveSRQs != 0 || d.liveMRs != 0 || d.liveMWs != 0 || d.livePDs != 1 ||
		len(d.Contexts) != 1 || len(d.groups) != 0 || len(b.f.xrcds) != 0 {
		t.Errorf("left on the device: %d QPs, %d CQs, %d SRQs, %d MRs, %d MWs, %d PDs, %d contexts, %d groups, "+
			"%d domains",
			d.liveQPs, d.liveCQs, d.liveSRQs, d.liveMRs, d.liveMWs, d.livePDs, len(d.Contexts), len(d.groups),
			len(b.f.xrcds))
	}
	if _, e := keep.c.PD(keep.pd.Handle); e != 0 {
		t.Errorf("the other context lost its PD: %v", e)
	}
	if len(b.f.pinned) != 0 {
		t.Errorf("memory stays pinned: %v", b.f.pinned)
	}
}

// An SRQ of no receives is made, as by mlx5_ib, which adds one.
func TestSmallSRQ(t *testing.T) {
	b := newBench(t, "mlx5_0")
	s := b.set(0)
	i := b.srqInit(s.pd)
	i.MaxWR = 0
	if q := got(s.c.CreateSRQ(i))(b); q.Ring.Count != 1 {
		t.Errorf("%d places", q.Ring.Count)
	}
}

// A page that a program allocates never has index 0, which programs hold for none; no two have the same.
func TestUARIndex(t *testing.T) {
	b := newBench(t, "mlx5_0")
	c := b.open(0)
	one, two := got(c.AllocUAR(0))(b), got(c.AllocUAR(0))(b)
	if one.Index == 0 || two.Index == 0 || one.Index == two.Index {
		t.Errorf("indices %d and %d", one.Index, two.Index)
	}
	again := one.Index
	b.is("free", c.FreeUAR(one.Handle), 0)
	if u := got(c.AllocUAR(0))(b); u.Index != again {
		t.Errorf("index %d, want %d, which is free", u.Index, again)
	}
}

// TestRandom makes and destroys objects of all kinds at random and compares what may be destroyed with who refers to
// it.
func TestRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	b := newBench(t, "mlx5_0,max_qp=64,max_cq=32,max_mr=64,max_mw=16,max_pd=16,max_srq=16")
	c := b.open(0)
	uar := got(c.AllocUAR(0))(b)
	type object struct {
		kind    string
		handle  uint32
		parents []*object
		users   int
	}
	live := map[string][]*object{}
	pick := func(kind string) *object {
		if l := live[kind]; len(l) > 0 {
			return l[rnd.IntN(len(l))]
		}
		return nil
	}
	add := func(kind string, h uint32, e unix.Errno, parents ...*object) {
		switch e {
		case 0:
			o := &object{kind: kind, handle: h, parents: parents}
			for _, p := range parents {
				p.users++
			}
			live[kind] = append(live[kind], o)
		case unix.ENOMEM: // at the limit
		default:
			t.Fatalf("%s: %v", kind, e)
		}
	}
	kinds := []string{"pd", "cq", "srq", "qp", "mr", "mw"}
	for range 20000 {
		kind := kinds[rnd.IntN(len(kinds))]
		pd, cq := pick("pd"), pick("cq")
		if rnd.IntN(5) < 3 {
			switch {
			case kind == "pd":
				p, e := c.AllocPD()
				h := uint32(0)
				if e == 0 {
					h = p.Handle
				}
				add(kind, h, e)
			case kind == "cq":
				q, e := c.CreateCQ(b.cqInit())
				h := uint32(0)
				if e == 0 {
					h = q.Handle
				}
				add(kind, h, e)
			case pd == nil:
			case kind == "srq":
				i := b.srqInit(&PD{Handle: pd.handle})
				q, e := c.CreateSRQ(i)
				h := uint32(0)
				if e == 0 {
					h = q.Handle
				}
				add(kind, h, e, pd)
			case kind == "mr" || kind == "mw":
				var k *MKey
				var e unix.Errno
				if kind == "mr" {
					k, e = c.RegMR(pd.handle, b.mem.base+rnd.Uint64N(1000), 1+rnd.Uint64N(5000), 0, 0)
					if e == unix.EINVAL { // the offset in the page
						continue
					}
				} else {
					k, e = c.AllocMW(pd.handle, uint8(1+rnd.IntN(2)))
				}
				h := uint32(0)
				if e == 0 {
					h = k.Handle
				}
				add(kind, h, e, pd)
			case kind == "qp" && cq != nil:
				i := b.qpInit(&PD{Handle: pd.handle}, &CQ{Handle: cq.handle}, uar, RC)
				parents := []*object{pd, cq, cq}
				if s := pick("srq"); s != nil && rnd.IntN(2) == 0 {
					i.SRQ, i.RQCount, i.RQShift = s.handle, 0, 0
					parents = append(parents, s)
				}
				q, e := c.CreateQP(i)
				h := uint32(0)
				if e == 0 {
					h = q.Handle
				}
				add(kind, h, e, parents...)
			}
			continue
		}
		o := pick(kind)
		if o == nil {
			continue
		}
		var e unix.Errno
		switch kind {
		case "pd":
			e = c.DeallocPD(o.handle)
		case "cq":
			_, _, e = c.DestroyCQ(o.handle)
		case "srq":
			_, e = c.DestroySRQ(o.handle)
		case "qp":
			_, e = c.DestroyQP(o.handle)
		case "mr":
			e = c.DeregMR(o.handle)
		case "mw":
			e = c.DeallocMW(o.handle)
		}
		if want := map[bool]unix.Errno{true: unix.EBUSY, false: 0}[o.users > 0]; e != want {
			t.Fatalf("destroying a %s with %d users: %v, want %v", kind, o.users, e, want)
		}
		if e == 0 {
			for _, p := range o.parents {
				p.users--
			}
			live[kind] = slices.DeleteFunc(live[kind], func(x *object) bool { return x == o })
		}
	}
	n := 1 // the doorbell page
	for _, l := range live {
		n += len(l)
	}
	if got := len(c.Handles()); got != n {
		t.Errorf("%d handles, %d objects", got, n)
	}
	if b.eng.qps != len(live["qp"]) || b.eng.cqs != len(live["cq"]) || b.eng.srqs != len(live["srq"]) {
		t.Errorf("the engine has %+v", *b.eng)
	}
}
