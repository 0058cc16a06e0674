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
	f.SetEngine(b.eng)
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
	return set{c, got(AllocPD(c))(b), got(CreateCQ(c, b.cqInit()))(b), got(AllocUAR(c))(b)}
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
		ah, e := CreateAH(s.c, s.pd.Handle, &AHAttr{Port: 1, Global: true, SGIDIndex: uint8(x.sgid), DGID: gid})
		if e != x.want || e == 0 && ah.Attr.DMAC != x.mac {
			t.Errorf("%s, to %s: %v, %+v; want %v, %x", x.name, x.dgid, e, ah, x.want, x.mac)
		}
	}
}

// TestGRHRequired asks a port that requires a GRH for addresses without one, and one that does not.
func TestGRHRequired(t *testing.T) {
	for spec, want := range map[string]unix.Errno{"": 0, ",grh=required": unix.EINVAL} {
		b := newBench(t, "mlx5_0,link=ib"+spec)
		s := b.set(0)
		p := b.f.Devices[0].Ports[0]
		global := AHAttr{Port: 1, DLID: p.Config.LID, Global: true, DGID: p.GID(0).GID}
		local := AHAttr{Port: 1, DLID: p.Config.LID}
		for _, x := range []struct {
			ah   AHAttr
			want unix.Errno
		}{{local, want}, {global, 0}} {
			_, e := CreateAH(s.c, s.pd.Handle, &x.ah)
			b.is("create ah"+spec, e, x.want)
			need := AttrState | path | AttrMaxDestRdAtomic | AttrMinRNRTimer
			for what, change := range map[string]func(a *QPAttr) AttrMask{
				"rtr":            func(a *QPAttr) AttrMask { a.AH = x.ah; return need },
				"alternate path": func(a *QPAttr) AttrMask { a.AltAH, a.AltPort = x.ah, 1; return need | AttrAltPath },
			} {
				qp := got(CreateQP(s.c, b.qpInit(s.pd, s.cq, s.uar, RC)))(b)
				b.is("init", qp.Modify(&QPAttr{Port: 1}, AttrState|inPort, Init), 0)
				a := QPAttr{PathMTU: 3, DestQPN: qp.Num, AH: global}
				mask := change(&a)
				b.is(what+spec, qp.Modify(&a, mask, RTR), x.want)
				e = Destroy[AnyQP](s.c, qp.Handle)
				b.is("destroy", e, 0)
			}
		}
	}
}

// TestNoAtomics: a device without atomics refuses a QP that would execute them, as mlx5_ib does.
func TestNoAtomics(t *testing.T) {
	for limit, want := range map[string]unix.Errno{"max_atomic=8": 0, "max_atomic=0": unix.EOPNOTSUPP} {
		b := newBench(t, "mlx5_0,"+limit)
		s := b.set(0)
		qp := got(CreateQP(s.c, b.qpInit(s.pd, s.cq, s.uar, RC)))(b)
		all := QPAttr{Port: 1, Access: AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic}
		b.is("init", qp.Modify(&all, AttrState|inPort, Init), 0)
		a := QPAttr{PathMTU: 3, DestQPN: 5, MaxDestRdAtomic: 1,
			AH: AHAttr{Global: true, SGIDIndex: 3, Port: 1, DGID: b.f.Devices[0].Ports[0].GID(3).GID}}
		need := AttrState | path | AttrMaxDestRdAtomic | AttrMinRNRTimer
		b.is(limit, qp.Modify(&a, need, RTR), want)
		if want == 0 {
			continue
		}
		a.Access = all.Access &^ AccessRemoteAtomic
		b.is("without the right", qp.Modify(&a, need|AttrAccess, RTR), 0)
		a = QPAttr{Access: all.Access}
		b.is("with it again", qp.Modify(&a, AttrState|retried|AttrAccess, RTS), want)
	}
}

// TestReferences destroys in the wrong order, then in the right one.
func TestReferences(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	c := s.c
	srq := got(CreateSRQ(c, b.srqInit(s.pd)))(b)
	init := b.qpInit(s.pd, s.cq, s.uar, RC)
	init.SRQ, init.RQCount, init.RQShift = srq.Handle, 0, 0
	qp := got(CreateQP(c, init))(b)
	mr := got(RegMR(c, 0, s.pd.Handle, b.mem.base, 4096, b.mem.base, AccessLocalWrite|AccessMWBind))(b)
	mw := got(AllocMW(c, s.pd.Handle, 2))(b)
	mw.Bind(mr, b.mem.base, b.mem.base, 64, AccessRemoteRead, qp.Num, 9)
	ah := got(CreateAH(c, s.pd.Handle, &AHAttr{Port: 1, Global: true, SGIDIndex: 3, HopLimit: 1,
		DGID: b.f.Devices[0].Ports[0].GID(3).GID}))(b)
	cq := func() unix.Errno { return Destroy[*CQ](c, s.cq.Handle) }
	srqs := func() unix.Errno { return Destroy[*SRQ](c, srq.Handle) }
	for _, x := range []struct {
		what string
		do   func() unix.Errno
	}{{"pd", func() unix.Errno { return Destroy[*PD](c, s.pd.Handle) }}, {"cq", cq}, {"srq", srqs},
		{"mr", func() unix.Errno { return destroyed(MR(c, mr.Handle)) }}} {
		b.is(x.what, x.do(), unix.EBUSY)
	}
	e := Destroy[AnyQP](c, qp.Handle)
	b.is("qp", e, 0)
	b.is("mw", destroyed(MW(c, mw.Handle)), 0)
	b.is("mr", destroyed(MR(c, mr.Handle)), 0)
	b.is("srq", srqs(), 0)
	b.is("cq", cq(), 0)
	b.is("pd with ah", Destroy[*PD](c, s.pd.Handle), unix.EBUSY)
	b.is("ah", Destroy[*AH](c, ah.Handle), 0)
	b.is("pd", Destroy[*PD](c, s.pd.Handle), 0)
	b.is("pd again", Destroy[*PD](c, s.pd.Handle), unix.ENOENT)
	if l := Leaked(c); len(l) > 0 {
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
	mr := got(RegMR(s.c, 0, s.pd.Handle, b.mem.base, 64, b.mem.base, 0))(b)
	all := map[string]func(h uint32) unix.Errno{
		"dealloc_pd":  func(h uint32) unix.Errno { return Destroy[*PD](s.c, h) },
		"dereg_mr":    func(h uint32) unix.Errno { return destroyed(MR(s.c, h)) },
		"dealloc_mw":  func(h uint32) unix.Errno { return destroyed(MW(s.c, h)) },
		"destroy_ah":  func(h uint32) unix.Errno { return Destroy[*AH](s.c, h) },
		"close_xrcd":  func(h uint32) unix.Errno { return Destroy[*XRCDRef](s.c, h) },
		"destroy_cq":  func(h uint32) unix.Errno { return Destroy[*CQ](s.c, h) },
		"destroy_qp":  func(h uint32) unix.Errno { return Destroy[AnyQP](s.c, h) },
		"destroy_srq": func(h uint32) unix.Errno { return Destroy[*SRQ](s.c, h) },
		"a QP":        func(h uint32) unix.Errno { _, e := FindQP(s.c, h); return e },
		"reg_mr":      func(h uint32) unix.Errno { _, e := RegMR(s.c, 0, h, b.mem.base, 64, b.mem.base, 0); return e },
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
	if _, e := Find[*MKey](other.c, mr.Handle); e != unix.ENOENT {
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
		if _, e := CreateSRQ(s.c, b.srqInit(s.pd)); e != unix.EOPNOTSUPP {
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
	full("mr", func() unix.Errno { _, e := RegMR(c, 0, s.pd.Handle, b.mem.base, 64, b.mem.base, 0); return e })
	full("mw", func() unix.Errno { _, e := AllocMW(c, s.pd.Handle, 1); return e })
	full("cq", func() unix.Errno { _, e := CreateCQ(c, b.cqInit()); return e })
	full("srq", func() unix.Errno { _, e := CreateSRQ(c, b.srqInit(s.pd)); return e })
	full("pd", func() unix.Errno { _, e := AllocPD(c); return e })
	self := &AHAttr{Port: 1, Global: true, SGIDIndex: 3, DGID: b.f.Devices[0].Ports[0].GID(3).GID}
	for range 2 { // what was closed counts no more
		var ahs, domains []uint32
		full("ah", func() unix.Errno {
			ah, e := CreateAH(c, s.pd.Handle, self)
			if e == 0 {
				ahs = append(ahs, ah.Handle)
			}
			return e
		})
		full("xrcd", func() unix.Errno {
			h, e := OpenXRCD(c, 0, 0, 0)
			if e == 0 {
				domains = append(domains, h.Handle)
			}
			return e
		})
		if len(ahs) != 1 || len(domains) != 1 {
			t.Fatalf("%d AHs and %d XRC domains, want 1 of each", len(ahs), len(domains))
		}
		b.is("destroy ah", Destroy[*AH](c, ahs[0]), 0)
		b.is("close xrcd", Destroy[*XRCDRef](c, domains[0]), 0)
	}
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
		_, e := CreateQP(c, &i)
		b.is(what, e, unix.EINVAL)
	}
	i := *gone
	i.Buf = 4096 // nothing is mapped there
	_, e := CreateQP(c, &i)
	b.is("unmapped ring", e, unix.EFAULT)
	full("qp", func() unix.Errno { _, e := CreateQP(c, gone); return e })
	q := b.cqInit()
	q.Entries = 32
	_, e = CreateCQ(c, q)
	b.is("cqe", e, unix.EINVAL)

	b.f.Config.MemlockLimit = 8192
	b2 := newBench(t)
	b2.f.Config.MemlockLimit = 8192
	s2 := b2.set(0)
	mr := got(RegMR(s2.c, 0, s2.pd.Handle, b2.mem.base, 8192, b2.mem.base, 0))(b2)
	_, e = RegMR(s2.c, 0, s2.pd.Handle, b2.mem.base, 1, b2.mem.base, 0)
	b.is("beyond memlock", e, unix.ENOMEM)
	e = mr.Reregister(reregTrans, 0, b2.mem.base, 4096, b2.mem.base, 0)
	b.is("smaller", e, 0)
	_, e = RegMR(s2.c, 0, s2.pd.Handle, b2.mem.base, 1, b2.mem.base, 0)
	b.is("room again", e, 0)
}

// TestMR looks at rights, bounds, keys and registrations that change.
func TestMR(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	c := s.c
	reg := func(addr, n, iova uint64, a Access) unix.Errno {
		_, e := RegMR(c, 0, s.pd.Handle, addr, n, iova, a)
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

	k := got(RegMR(c, 0, s.pd.Handle, b.mem.base+100, 1000, b.mem.base+100, AccessLocalWrite|AccessRemoteRead))(b)
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
	e := k.Reregister(0, 0, 0, 0, 0, 0)
	b.is("no change", e, unix.EINVAL)
	e = k.Reregister(reregPD, 99, 0, 0, 0, 0)
	b.is("no such pd", e, unix.ENOENT)
	e = k.Reregister(reregTrans, 0, 4096, 64, 4096, 0)
	b.is("to unmapped memory", e, unix.EFAULT)
	if c.Device.Key(old) != k {
		t.Error("a change that failed changed the key")
	}
	pd2 := got(AllocPD(c))(b)
	e = k.Reregister(reregTrans|reregAccess|reregPD, pd2.Handle, b.mem.base, 4*4096, b.mem.base,
		AccessLocalWrite|AccessRemoteWrite)
	b.is("moved, within the table", e, 0)
	if c.Device.Key(old) != k || k.Key != old || b.eng.revoked != revoked+1 || k.PD != pd2 || k.Addr != b.mem.base ||
		k.Len != 4*4096 {
		t.Errorf("%+v", k)
	}
	b.is("the PD that it left", Destroy[*PD](c, pd2.Handle), unix.EBUSY)
	e = k.Reregister(reregAccess, 0, 0, 0, 0, AccessRemoteRead|AccessRelaxed)
	b.is("other rights", e, 0)
	e = k.Reregister(reregPD, s.pd.Handle, 0, 0, 0, 0)
	b.is("another PD", e, 0)
	if k.Key != old || k.PD != s.pd || k.Access != AccessRemoteRead|AccessRelaxed || k.Len != 4*4096 {
		t.Errorf("%+v", k)
	}
	b.is("the PD that it left", Destroy[*PD](c, pd2.Handle), 0)
	for what, change := range map[string]func() unix.Errno{
		"larger than the table": func() unix.Errno {
			e := k.Reregister(reregTrans, 0, b.mem.base+4095, 4*4096-4094, b.mem.base+4095, 0)
			return e
		},
		"rights that no UMR changes": func() unix.Errno {
			e := k.Reregister(reregAccess, 0, 0, 0, 0, k.Access^AccessHugeTLB)
			return e
		},
	} {
		old := k.Key
		b.is(what, change(), 0)
		if c.Device.KeyAt(old>>8) != nil || c.Device.Key(k.Key) != k || k.Key>>8 == old>>8 {
			t.Errorf("%s: key %#x became %#x", what, old, k.Key)
		}
	}
	zero := got(RegMR(c, 0, s.pd.Handle, b.mem.base+16, 64, b.mem.base+16, AccessZeroBased))(b)
	if va, ok := zero.Resolve(8, 8, 0); !ok || va != b.mem.base+24 {
		t.Errorf("zero-based: %#x %v", va, ok)
	}
	// A key's place may be used again, its number not at once.
	b.is("dereg", destroyed(MR(c, k.Handle)), 0)
	gone := k.Key
	for range 100 {
		n := got(RegMR(c, 0, s.pd.Handle, b.mem.base, 64, b.mem.base, 0))(b)
		if n.Key == gone {
			t.Fatal("a key came back at once")
		}
		b.is("dereg", destroyed(MR(c, n.Handle)), 0)
	}
}

// TestResizeCQ asks for what there is no room for.
func TestResizeCQ(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	resize := func(n uint32) unix.Errno {
		e := s.cq.Resize(n, b.mem.base+65536, 64)
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

// TestReleaseOfDevx ends a context with an object of DevX and the CQ that does its work, which ends once.
func TestReleaseOfDevx(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	cq := got(CreateCQ(s.c, b.cqInit()))(b)
	o := &DevxObject{Name: "DevX CQ", Inner: cq.Handle}
	AddDevx(s.c, o)
	if l := strings.Join(Leaked(s.c), ", "); l != "1 DevX CQ, 1 CQ, 1 PD" {
		t.Errorf("leaked %s", l)
	}
	s.c.Release()
	if n := b.f.Devices[0].cqs().live; n != 0 || b.eng.cqs != 0 {
		t.Errorf("%d CQs on the device, %d in the engine, want none", n, b.eng.cqs)
	}
}

// TestEventsNobodyTakes destroys a CQ whose program never asked for events: it has none to acknowledge, and would wait
// for ever to be told of one.
func TestEventsNobodyTakes(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	s.cq.Event(EventCQErr)
	if e := Destroy[*CQ](s.c, s.cq.Handle); s.cq.AsyncDelivered != 0 || e != 0 {
		t.Errorf("%d events, %v", s.cq.AsyncDelivered, e)
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
		h, e := OpenXRCD(c, 0, 0, unix.O_CREAT)
		b.is("xrcd", e, 0)
		srq := got(CreateSRQ(c, b.srqInit(s.pd)))(b)
		qp := got(CreateQP(c, b.qpInit(s.pd, s.cq, s.uar, UD)))(b)
		x := b.qpInit(s.pd, s.cq, s.uar, XRCRecv)
		x.XRCD = h.Handle
		got(CreateQP(c, x))(b)
		b.is("attach", qp.Attach([16]byte{0xff, 0x12, 15: 7}, 0), 0)
		mr := got(RegMR(c, 0, s.pd.Handle, b.mem.base, 64, b.mem.base, AccessMWBind))(b)
		mw := got(AllocMW(c, s.pd.Handle, 1))(b)
		mw.Bind(mr, b.mem.base, b.mem.base, 8, 0, 0, 1)
		_ = srq
		if l := strings.Join(Leaked(c), ", "); l != "2 QPs, 1 SRQ, 1 CQ, 1 MW, 1 MR, 1 XRCD, 1 PD" {
			t.Errorf("leaked %s", l)
		}
		c.Release()
		c.Release() // does nothing
		if len(c.Handles()) != 0 {
			t.Errorf("left: %v", Leaked(c))
		}
	}
	left := map[string]int{"QPs": d.qps().live, "CQs": d.cqs().live, "SRQs": d.srqs().live, "MRs": d.keys().liveMRs,
		"MWs": d.keys().liveMWs, "PDs": pdPart.of(&d.parts).live, "contexts": len(d.Contexts),
		"groups": len(groupPart.of(&d.parts).members), "domains": xrcdLive.of(&d.parts).n,
		"named domains": len(xrcdPart.of(&b.f.parts).named)}
	for what, n := range left {
		want := 0
		if what == "CQs" || what == "PDs" || what == "contexts" {
			want = 1
		}
		if n != want {
			t.Errorf("left on the device: %d %s, want %d", n, what, want)
		}
	}
	if _, e := Find[*PD](keep.c, keep.pd.Handle); e != 0 {
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
	if q := got(CreateSRQ(s.c, i))(b); q.Ring.Count != 1 {
		t.Errorf("%d places", q.Ring.Count)
	}
}

// A page that a program allocates never has index 0, which programs hold for none; no two have the same.
func TestUARIndex(t *testing.T) {
	b := newBench(t, "mlx5_0")
	c := b.open(0)
	one, two := got(AllocUAR(c))(b), got(AllocUAR(c))(b)
	if one.Index == 0 || two.Index == 0 || one.Index == two.Index {
		t.Errorf("indices %d and %d", one.Index, two.Index)
	}
	again := one.Index
	b.is("free", Destroy[*UAR](c, one.Handle), 0)
	if u := got(AllocUAR(c))(b); u.Index != again {
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
	uar := got(AllocUAR(c))(b)
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
				p, e := AllocPD(c)
				h := uint32(0)
				if e == 0 {
					h = p.Handle
				}
				add(kind, h, e)
			case kind == "cq":
				q, e := CreateCQ(c, b.cqInit())
				h := uint32(0)
				if e == 0 {
					h = q.Handle
				}
				add(kind, h, e)
			case pd == nil:
			case kind == "srq":
				i := b.srqInit(&PD{Held: Held{Handle: pd.handle}})
				q, e := CreateSRQ(c, i)
				h := uint32(0)
				if e == 0 {
					h = q.Handle
				}
				add(kind, h, e, pd)
			case kind == "mr" || kind == "mw":
				var k *MKey
				var e unix.Errno
				if kind == "mr" {
					k, e = RegMR(c, 0, pd.handle, b.mem.base+rnd.Uint64N(1000), 1+rnd.Uint64N(5000), 0, 0)
					if e == unix.EINVAL { // the offset in the page
						continue
					}
				} else {
					k, e = AllocMW(c, pd.handle, uint8(1+rnd.IntN(2)))
				}
				h := uint32(0)
				if e == 0 {
					h = k.Handle
				}
				add(kind, h, e, pd)
			case kind == "qp" && cq != nil:
				i := b.qpInit(&PD{Held: Held{Handle: pd.handle}}, &CQ{Held: Held{Handle: cq.handle}}, uar, RC)
				parents := []*object{pd, cq, cq}
				if s := pick("srq"); s != nil && rnd.IntN(2) == 0 {
					i.SRQ, i.RQCount, i.RQShift = s.handle, 0, 0
					parents = append(parents, s)
				}
				q, e := CreateQP(c, i)
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
			e = Destroy[*PD](c, o.handle)
		case "cq":
			e = Destroy[*CQ](c, o.handle)
		case "srq":
			e = Destroy[*SRQ](c, o.handle)
		case "qp":
			e = Destroy[AnyQP](c, o.handle)
		case "mr":
			e = destroyed(MR(c, o.handle))
		case "mw":
			e = destroyed(MW(c, o.handle))
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
