//go:build linux

package hca

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestRereg_Rules has what mlx5's driver makes of a re-registration, by the kind of region. C: ib_uverbs_rereg_mr,
// ib_umem_check_rereg, mlx5_ib_rereg_user_mr.
func TestRereg_Rules(t *testing.T) {
	const all = ^uint64(0)
	const lw, rr, od = AccessLocalWrite, AccessRemoteRead, AccessOnDemand
	for _, x := range []struct {
		name   string
		kind   string // of region
		access Access // with which it is there
		flags  uint32
		to     Access
		want   unix.Errno
		same   bool // its key stays
		paged  bool // afterwards it is on demand
	}{
		{"rights that may be written", "memory", 0, reregAccess, lw, unix.EACCES, true, false},
		{"a window's right", "memory", rr, reregAccess, rr | AccessMWBind, unix.EACCES, true, false},
		{"rights of what may be written", "memory", lw, reregAccess, rr, 0, true, false},
		{"the same again", "memory", lw, reregAccess, lw | AccessRemoteWrite, 0, true, false},
		{"rights, of other memory", "memory", 0, reregAccess | reregTrans, lw, 0, true, false},
		{"large pages", "memory", lw, reregAccess, lw | AccessHugeTLB, 0, false, false},
		{"on demand, of other memory", "memory", lw, reregAccess | reregTrans, lw | od, 0, false, true},
		{"on demand in place", "memory", lw, reregAccess, lw | od, unix.EOPNOTSUPP, true, false},
		{"other memory", "demand", lw | od, reregTrans, 0, 0, false, true},
		{"other memory, not on demand", "demand", lw | od, reregTrans | reregAccess, lw, 0, false, false},
		{"rights", "demand", lw | od, reregAccess, od, 0, true, true},
		{"rights that may be written", "demand", od, reregAccess, lw | od, unix.EACCES, true, true},
		{"not on demand in place", "demand", lw | od, reregAccess, lw, unix.EOPNOTSUPP, true, true},
		{"rights", "everything", lw | od, reregAccess, lw | rr | od, 0, false, true},
		{"a PD", "everything", lw | od, reregPD, 0, 0, false, true},
		{"not on demand", "everything", lw | od, reregAccess, lw, unix.EOPNOTSUPP, true, true},
		{"other memory", "buffer", lw, reregTrans, 0, 0, false, false},
		{"rights", "buffer", lw, reregAccess, lw | rr, 0, true, false},
		{"large pages", "buffer", lw, reregAccess, lw | AccessHugeTLB, unix.EOPNOTSUPP, true, false},
		{"other memory", "device", lw | AccessZeroBased, reregTrans, 0, unix.EINVAL, true, false},
		{"rights", "device", lw | AccessZeroBased, reregAccess, AccessZeroBased, unix.EINVAL, true, false},
		{"a PD", "device", lw | AccessZeroBased, reregPD, 0, unix.EINVAL, true, false},
		{"a PD", "advised", lw, reregPD, 0, unix.EOPNOTSUPP, true, false},
		{"other memory", "advised", lw, reregTrans, 0, unix.EOPNOTSUPP, true, false},
	} {
		t.Run(x.kind+", "+x.name, func(t *testing.T) {
			b := newBench(t, "mlx5_0,dmabuf=memfd")
			s := b.set(0)
			c, pd2 := s.c, got(AllocPD(s.c))(b)
			var k *MKey
			switch x.kind {
			case "memory", "demand":
				k = got(RegMR(c, 0, s.pd.Handle, b.mem.base, 4096, b.mem.base, x.access))(b)
			case "everything":
				k = got(RegMR(c, 0, s.pd.Handle, 0, all, 0, x.access))(b)
			case "advised":
				h := got(AllocDMAH(c))(b)
				k = got(RegMR(c, h.Handle, s.pd.Handle, b.mem.base, 4096, b.mem.base, x.access))(b)
			case "device":
				m := got(AllocDM(c, 4096, 0))(b)
				k = got(RegDM(c, s.pd.Handle, m.Handle, 0, 4096, x.access))(b)
			case "buffer":
				fd, err := unix.MemfdCreate("buffer", unix.MFD_CLOEXEC)
				if err != nil {
					t.Fatal(err)
				}
				defer unix.Close(fd)
				if err := unix.Ftruncate(fd, 4096); err != nil {
					t.Fatal(err)
				}
				k = got(RegDmabuf(c, s.pd.Handle, fd, 0, 4096, 0, x.access, 0))(b)
			}
			key, access := k.Key, k.Access
			e := k.Reregister(x.flags, pd2.Handle, b.mem.base+8192, 4096, b.mem.base+8192, x.to)
			b.is("rereg_mr", e, x.want)
			if (k.Key == key) != x.same || c.Device.Key(k.Key) != k || (k.Paging != nil) != x.paged {
				t.Errorf("key %#x became %#x, on demand %v", key, k.Key, k.Paging != nil)
			}
			if e == 0 && x.flags&reregTrans != 0 && (k.Addr != b.mem.base+8192 || k.dmabuf != nil) {
				t.Errorf("it is of memory at %#x", k.Addr)
			}
			if want := x.to; e == 0 && x.flags&reregAccess != 0 && k.Access != want {
				t.Errorf("rights %#x, want %#x", k.Access, want)
			} else if e != 0 && k.Access != access {
				t.Errorf("refused, it has the rights %#x", k.Access)
			}
			b.is("dereg_mr", destroyed(MR(c, k.Handle)), 0)
			if len(b.f.pinned) != 0 {
				t.Errorf("memory stays pinned: %v", b.f.pinned)
			}
		})
	}
}

// TestRules has refusals of the kernel and of the adapter that a program meets seldom.
func TestRules(t *testing.T) {
	b := newBench(t, "mlx5_0", "mlx5_1,link=ib", "mlx5_2,cqe_version=0")
	s := b.set(0)
	c := s.c
	group := [16]byte{0xff, 0x12, 15: 7}

	// What is on demand the driver finds by its key, and windows too; a pinned region it does not find.
	mr := got(RegMR(c, 0, s.pd.Handle, b.mem.base, 4096, b.mem.base, AccessLocalWrite))(b)
	mw := got(AllocMW(c, s.pd.Handle, 1))(b)
	b.is("advice for a pinned region", Advise(c, s.pd.Handle, 0, 0, []Advised{{mr.Key, b.mem.base, 1}}), unix.ENOENT)
	b.is("advice for a window", Advise(c, s.pd.Handle, 0, 0, []Advised{{mw.Key, b.mem.base, 1}}), unix.EINVAL)

	// A multicast LID matters on InfiniBand alone.
	ib := b.set(1)
	for name, x := range map[string]struct {
		s   set
		lid uint16
		e   unix.Errno
	}{"RoCE": {s, 0, 0}, "unicast": {ib, 7, unix.EINVAL}, "none": {ib, 0, unix.EINVAL},
		"permissive": {ib, 0xffff, unix.EINVAL}, "multicast": {ib, 0xc001, 0}} {
		qp := got(CreateQP(x.s.c, b.qpInit(x.s.pd, x.s.cq, x.s.uar, UD)))(b)
		b.is("attach with a LID: "+name, qp.Attach(group, x.lid), x.e)
		if x.e == 0 {
			b.is("attach again", qp.Attach(group, x.lid), 0)
			b.is("detach with another LID", qp.Detach(group, x.lid+1), unix.EINVAL)
			b.is("detach", qp.Detach(group, x.lid), 0)
			b.is("detach again", qp.Detach(group, x.lid), unix.EINVAL)
		}
	}

	// An opening of a domain does not close while something that was made by it is there, though others stay open.
	one, e := OpenXRCD(c, 1, 2, unix.O_CREAT)
	b.is("open", e, 0)
	other := b.open(0)
	two, e := OpenXRCD(other, 1, 2, 0)
	b.is("open again", e, 0)
	target := got(CreateQP(c, &QPInit{Type: XRCRecv, XRCD: one.Handle, UARPage: -1, Register: -1}))(b)
	opened := got(OpenQP(other, two.Handle, target.Num))(b)
	b.is("close with a QP", Destroy[*XRCDRef](c, one.Handle), unix.EBUSY)
	b.is("close with an opened QP", Destroy[*XRCDRef](other, two.Handle), unix.EBUSY)
	e = Destroy[AnyQP](other, opened.Handle)
	b.is("destroy the opened one", e, 0)
	b.is("close the other one", Destroy[*XRCDRef](other, two.Handle), 0)
	two, e = OpenXRCD(other, 1, 2, 0)
	b.is("open a third time", e, 0)
	opened = got(OpenQP(other, two.Handle, target.Num))(b)
	e = Destroy[AnyQP](c, target.Handle)
	b.is("destroy the QP, which stays open", e, 0)
	b.is("close", Destroy[*XRCDRef](c, one.Handle), 0)
	e = Destroy[AnyQP](other, opened.Handle)
	b.is("destroy the opened one again", e, 0)
	b.is("close the last", Destroy[*XRCDRef](other, two.Handle), 0)
	_, e = CreateQP(c, &QPInit{Type: XRCRecv, XRCD: 4711, UARPage: -1, Register: -1})
	b.is("a QP in no domain", e, unix.EINVAL)
	_, e = OpenQP(c, 4711, 1)
	b.is("open a QP in no domain", e, unix.EINVAL)

	// The library says nothing of a queue that there is not.
	srq := got(CreateSRQ(c, b.srqInit(s.pd)))(b)
	i := b.qpInit(s.pd, s.cq, s.uar, RC)
	i.SRQ = srq.Handle
	_, e = CreateQP(c, i)
	b.is("a receive queue and an SRQ", e, unix.EINVAL)
	i.RQCount, i.RQShift = 0, 4
	_, e = CreateQP(c, i)
	b.is("receives of a size, and none of them", e, unix.EINVAL)
	raw := b.qpInit(s.pd, s.cq, s.uar, RawPacket)
	raw.SQBuf, raw.SQCount, raw.RQCount, raw.RQShift, raw.Cap.RecvWR = raw.Buf, 0, 0, 0, 0
	_, e = CreateQP(c, raw)
	b.is("a raw packet QP without queues", e, unix.EINVAL)
	old := b.set(2)
	raw = b.qpInit(old.pd, old.cq, old.uar, RawPacket)
	raw.SQBuf, raw.UIdx = raw.Buf, NoUserIndex
	_, e = CreateQP(old.c, raw)
	b.is("a raw packet QP with old CQEs", e, unix.EINVAL)

	q := b.cqInit()
	q.UAR = 99
	_, e = CreateCQ(c, q)
	b.is("a CQ with another's doorbells", e, unix.EINVAL)

	srqInit := b.srqInit(s.pd)
	srqInit.MaxSGE = 2
	if two := got(CreateSRQ(c, srqInit))(b); two.MaxSGE != 2 || two.Limit != 0 {
		t.Errorf("an SRQ of two pieces has %d, and the limit %d", two.MaxSGE, two.Limit)
	}

	for rate, want := range map[uint8]unix.Errno{0: 0, 1: unix.EINVAL, 2: 0, 25: 0, 26: unix.EINVAL} {
		_, e := CreateAH(c, s.pd.Handle, &AHAttr{Port: 1, Global: true, SGIDIndex: 3, StaticRate: rate,
			DGID: b.f.Devices[0].Ports[0].GID(3).GID})
		b.is("an AH with a rate", e, want)
	}
}

// TestModifyWQ_States tries each state that a WQ can be in, that the driver knows of, and that the program names.
func TestModifyWQ_States(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	w := got(CreateWQ(s.c, &WQInit{PD: s.pd.Handle, CQ: s.cq.Handle, MaxWR: 4, MaxSGE: 1, Buf: b.mem.base + 16384,
		DB: b.mem.base + 12288, Count: 4, Shift: 4}))(b)
	states := [...]QPState{WQReset: Reset, WQReady: RTR, WQError: Err}
	for state := WQReset; state <= WQError; state++ {
		for known := WQReset; known <= WQError; known++ {
			for named := WQReset; named <= WQError+2; named++ {
				for to := WQReset; to <= WQError+2; to++ {
					m := &WQModify{State: to, CurState: named}
					from, target := known, known
					if named <= WQError+1 {
						m.Mask, from, target = m.Mask|WQAttrCurState, named, named
					}
					if to <= WQError+1 {
						m.Mask, target = m.Mask|WQAttrState, to
					}
					want := unix.Errno(0)
					if m.Mask == 0 || from > WQError || target > WQError || from != state ||
						from == WQReset && target == WQError || from == WQError && target == WQReady {
						want = unix.EINVAL
					}
					w.Queue.State, w.known = states[state], known
					e := w.Modify(m)
					after := state
					if want == 0 {
						after = target
					}
					if e != want || w.State() != after {
						t.Errorf("in %v, known as %v, called %v, to %v: %v, and then in %v; want %v, %v", state, known,
							named, to, e, w.State(), want, after)
					}
				}
			}
		}
	}
}
