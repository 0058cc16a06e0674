package mlx5

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// bench is an open device with what most tests need.
type bench struct {
	*testing.T
	v            *Verbs
	r            testutil.RXE
	dev, ctx, pd handle
	ch, cq       handle
	gid          abi.GID
	closers      []func() error
}

// need skips a test where the devices are not mlx5's.
func need(t *testing.T) testutil.RXE {
	t.Helper()
	r := testutil.NeedRXE(t)
	if !r.Emulated && !r.Hardware {
		t.Skip("drives mlx5 devices only")
	}
	return r
}

// newBench opens the first device. form is the first form that commands are given in.
func newBench(t *testing.T, form uverbs.Form) *bench {
	t.Helper()
	b := &bench{T: t, v: New(), r: need(t)}
	b.dev = b.find(b.r.Dev[0])
	d, err := get[device](b.v, b.dev)
	if err != nil {
		t.Fatal(err)
	}
	d.forms.From(form)
	b.ctx = b.ok(b.v.OpenDevice(b.dev))
	b.later(func() error { return b.v.CloseDevice(b.ctx) })
	b.pd = b.ok(b.v.AllocPD(b.ctx))
	b.later(func() error { return b.v.DeallocPD(b.pd) })
	b.ch = b.ok(b.v.CreateCompChannel(b.ctx))
	b.later(func() error { return b.v.DestroyCompChannel(b.ch) })
	b.cq = b.ok(b.v.CreateCQ(b.ctx, 100, 7, b.ch, 0))
	b.later(func() error { return b.v.DestroyCQ(b.cq) })
	b.check(b.v.QueryGID(b.ctx, b.r.Port, b.r.GID, &b.gid))
	t.Cleanup(b.end)
	return b
}

// later destroys something in the end, before what was made earlier.
func (b *bench) later(f func() error) { b.closers = append(b.closers, f) }

func (b *bench) end() {
	for i := len(b.closers) - 1; i >= 0; i-- {
		if err := b.closers[i](); err != nil {
			b.Error(err)
		}
	}
	b.closers = nil
	for h, o := range b.v.table.objects {
		if _, ok := o.(*device); !ok {
			b.Errorf("handle %d is left: %T", h, o)
		}
	}
}

func (b *bench) ok(h handle, err error) handle {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	return h
}

func (b *bench) check(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// find returns the device of that name.
func (b *bench) find(name string) handle {
	b.Helper()
	list, devices, err := b.v.GetDeviceList()
	b.check(err)
	defer b.v.FreeDeviceList(list)
	for _, d := range devices {
		if n, _ := b.v.GetDeviceName(d); n == name {
			return d
		}
	}
	b.Fatalf("%s is not among %d devices", name, len(devices))
	return 0
}

func (b *bench) qp(typ uint32, srq handle) (handle, *abi.QPInitAttrEx) {
	b.Helper()
	init := &abi.QPInitAttrEx{SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq, QPType: typ,
		Cap: abi.QPCap{MaxSendWR: 10, MaxRecvWR: 10, MaxSendSGE: 1, MaxRecvSGE: 1}}
	h := b.ok(b.v.CreateQP(b.pd, init))
	b.later(func() error { return b.v.DestroyQP(h) })
	return h, init
}

func (b *bench) modify(qp handle, mask uint32, a abi.QPAttr) {
	b.Helper()
	b.check(b.v.ModifyQP(qp, &a, mask|abi.IBV_QP_STATE))
	if got := b.v.QPState(qp).Load(); got != a.QPState {
		b.Errorf("the state is %d, want %d", got, a.QPState)
	}
}

// connect moves a QP to RTS, connected to itself.
func (b *bench) connect(qp handle, typ uint32) {
	b.Helper()
	first := uint32(abi.IBV_QP_ACCESS_FLAGS)
	if typ == abi.IBV_QPT_UD {
		first = abi.IBV_QP_QKEY
	}
	b.modify(qp, first|abi.IBV_QP_PORT|abi.IBV_QP_PKEY_INDEX, abi.QPAttr{QPState: abi.IBV_QPS_INIT,
		PortNum: b.r.Port, QKey: 17})
	var rtr uint32 = abi.IBV_QP_AV | abi.IBV_QP_PATH_MTU | abi.IBV_QP_DEST_QPN | abi.IBV_QP_RQ_PSN
	var rts uint32 = abi.IBV_QP_SQ_PSN
	switch typ {
	case abi.IBV_QPT_RC:
		rtr |= abi.IBV_QP_MAX_DEST_RD_ATOMIC | abi.IBV_QP_MIN_RNR_TIMER
		rts |= abi.IBV_QP_TIMEOUT | abi.IBV_QP_RETRY_CNT | abi.IBV_QP_RNR_RETRY | abi.IBV_QP_MAX_QP_RD_ATOMIC
	case abi.IBV_QPT_UD:
		rtr = 0
	}
	b.modify(qp, rtr, abi.QPAttr{QPState: abi.IBV_QPS_RTR, PathMTU: 3, DestQPNum: b.v.QPNumber(qp), RQPSN: 5,
		MaxDestRdAtomic: 1, MinRNRTimer: 12, AHAttr: b.address()})
	b.modify(qp, rts, abi.QPAttr{QPState: abi.IBV_QPS_RTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1,
		SQPSN: 5})
}

func (b *bench) address() abi.AHAttr {
	return abi.AHAttr{IsGlobal: 1, PortNum: b.r.Port,
		GRH: abi.GlobalRoute{DGID: b.gid, SGIDIndex: uint8(b.r.GID), HopLimit: 64}}
}

var forms = []struct {
	name string
	form uverbs.Form
}{{"method", uverbs.ByMethod}, {"invoke", uverbs.ByInvoke}, {"write", uverbs.ByWrite}}

// TestRXE_Objects makes each kind of object in each form, and compares what the kernel says of it.
func TestRXE_Objects(t *testing.T) {
	need(t)
	var first string
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			b := newBench(t, f.form)
			got := b.objects()
			if first == "" {
				first = got
			}
			if got != first {
				t.Errorf("attributes\n%s\nwant, as in the first form,\n%s", got, first)
			}
		})
	}
}

// objects makes objects and returns their attributes.
func (b *bench) objects() string {
	v := b.v
	dev, ex, port := new(abi.DeviceAttr), new(abi.DeviceAttrEx), new(abi.PortAttr)
	b.check(v.QueryDevice(b.ctx, dev))
	b.check(v.QueryDeviceEx(b.ctx, ex))
	b.check(v.QueryPort(b.ctx, b.r.Port, port))
	port.PortCapFlags2, port.ActiveSpeedEx = 0, 0 // only a method answers them
	pkey, err := v.QueryPKey(b.ctx, b.r.Port, 0)
	b.check(err)
	var ticks [2]abi.ValuesEx
	for i := range ticks {
		ticks[i].CompMask = 1
		b.check(v.QueryRTValuesEx(b.ctx, &ticks[i]))
	}
	clock := new(abi.MLX5DVClockInfo)
	b.check(v.Rings().GetClockInfo(b.ctx, clock))
	if ticks[1].RawClock.Nsec < ticks[0].RawClock.Nsec || clock.Nsec == 0 || clock.Mask == 0 {
		b.Errorf("the clock is %d, then %d; %+v", ticks[0].RawClock.Nsec, ticks[1].RawClock.Nsec, clock)
	}
	entries := make([]abi.GIDEntry, 16)
	n, err := v.QueryGIDTable(b.ctx, entries)
	b.check(err)

	mem, err := dma.Alloc(4096, nil)
	b.check(err)
	b.later(mem.Free)
	mr := b.ok(v.RegMRIOVA2(b.pd, mem.Addr(), 4096, 1<<20, abi.IBV_ACCESS_LOCAL_WRITE|abi.IBV_ACCESS_RELAXED_ORDERING))
	b.later(func() error { return v.DeregMR(mr) })
	if m := v.MR(mr); m.Addr != mem.Addr() || m.Length != 4096 || m.PD != b.pd || m.LKey == 0 {
		b.Errorf("the MR is %+v", m)
	}
	srq := b.ok(v.CreateSRQ(b.pd, &abi.SRQInitAttr{Attr: abi.SRQAttr{MaxWR: 20, MaxSGE: 2}}))
	b.later(func() error { return v.DestroySRQ(srq) })
	b.check(v.ModifySRQ(srq, &abi.SRQAttr{SRQLimit: 3}, abi.IBV_SRQ_LIMIT))
	limits := new(abi.SRQAttr)
	b.check(v.QuerySRQ(srq, limits))
	list := b.links(srq)

	attrs := fmt.Sprintf("%+v\n%+v\n%+v\n%x %+v\n%+v, list %d\n", dev, ex, port, pkey, entries[:n], limits, list)
	for _, typ := range []uint32{abi.IBV_QPT_RC, abi.IBV_QPT_UC, abi.IBV_QPT_UD} {
		for _, s := range []handle{0, srq} {
			qp, init := b.qp(typ, s)
			b.connect(qp, typ)
			a, again := new(abi.QPAttr), new(abi.QPInitAttrEx)
			b.check(v.QueryQP(qp, a, abi.IBV_QP_STATE, again))
			if again.Cap != init.Cap || again.SRQ != s || a.QPState != abi.IBV_QPS_RTS {
				b.Errorf("a QP of type %d is %+v, %+v; want %+v", typ, again, a, init)
			}
			a.DestQPNum = 0
			attrs += fmt.Sprintf("type %d: %+v\n", typ, a)
		}
	}
	td := b.ok(v.AllocTD(b.ctx))
	parent := b.ok(v.AllocParentDomain(b.ctx, b.pd, td))
	if v.PDNumber(parent) != v.PDNumber(b.pd) || v.Owner(parent) != b.ctx {
		b.Error("the parent domain is not one of its PD")
	}
	b.later(func() error { return errors.Join(v.DeallocPD(parent), v.DeallocTD(b.ctx, td)) })
	qp := b.ok(v.CreateQP(parent, &abi.QPInitAttrEx{SendCQ: b.cq, RecvCQ: b.cq, QPType: abi.IBV_QPT_UD,
		Cap: abi.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}))
	b.later(func() error { return v.DestroyQP(qp) })
	rings, err := v.Rings().InitQP(qp, 0)
	b.check(err)
	if rings.BF.Size == 0 {
		b.Error("a QP of a thread domain has no BlueFlame")
	}
	b.connect(qp, abi.IBV_QPT_UD)
	group := abi.GID{0: 0xff, 1: 0x0e, 15: 9}
	b.check(v.AttachMcast(qp, &group, 0))
	b.check(v.DetachMcast(qp, &group, 0))
	address := b.address()
	ah := b.ok(v.CreateAH(b.pd, &address))
	b.later(func() error { return v.DestroyAH(ah) })
	av, err := v.Rings().InitAH(ah)
	b.check(err)
	vector := cmem.Clone[byte](av, avSize)
	clear(vector[avLID : avLID+2]) // a port by chance
	mac, vid, err := v.ResolveEthL2FromGID(b.ctx, &address)
	b.check(err)
	if [6]byte(vector[avMAC:]) != mac || mac == [6]byte{} {
		b.Errorf("the address has the MAC % x, resolved % x", vector[avMAC:avMAC+6], mac)
	}
	return attrs + fmt.Sprintf("vector % x, vlan %d\n", vector, vid)
}

// links returns the free list of an SRQ.
func (b *bench) links(srq handle) (list []uint16) {
	s, err := b.v.Rings().InitSRQ(srq, 0)
	b.check(err)
	for i := s.Head; i != s.Tail && len(list) < 1<<16; {
		next := cmem.Slice[byte](s.Buf+uintptr(i*s.Stride), 4)
		i = uint32(next[2])<<8 | uint32(next[3])
		list = append(list, uint16(i))
	}
	return list
}

// TestRXE_Sizes refuses what no device has, before arithmetic and before memory is used.
func TestRXE_Sizes(t *testing.T) {
	b := newBench(t, uverbs.ByMethod)
	v := b.v
	for _, cqe := range []int{0, -1, 1<<24 - 1, 1 << 24, 1<<31 - 1, 1 << 32, -1 << 31} {
		if h, err := v.CreateCQ(b.ctx, cqe, 0, 0, 0); err != error(syscall.EINVAL) {
			t.Errorf("a CQ of %d entries: %d, %v", cqe, h, err)
		}
	}
	for _, vector := range []int{-1, 1 << 31, 1 << 32, 1000} {
		if h, err := v.CreateCQ(b.ctx, 1, 0, 0, vector); err != error(syscall.EINVAL) {
			t.Errorf("a CQ of vector %d: %d, %v", vector, h, err)
		}
	}
	const most = 1<<32 - 1
	for _, c := range []abi.QPCap{
		{MaxSendWR: most, MaxSendSGE: 1}, {MaxSendWR: 1, MaxSendSGE: most}, {MaxSendWR: 1, MaxSendSGE: 4096},
		{MaxSendWR: 1, MaxInlineData: most}, {MaxSendWR: 1 << 30, MaxSendSGE: 1}, {MaxRecvWR: most, MaxRecvSGE: 1},
		{MaxRecvWR: 1, MaxRecvSGE: most}, {MaxRecvWR: 1, MaxRecvSGE: 4096}, {MaxSendWR: most, MaxRecvWR: most},
	} {
		for _, typ := range []uint32{abi.IBV_QPT_RC, abi.IBV_QPT_UC, abi.IBV_QPT_UD} {
			a := &abi.QPInitAttrEx{SendCQ: b.cq, RecvCQ: b.cq, QPType: typ, Cap: c}
			if h, err := v.CreateQP(b.pd, a); err != error(syscall.EINVAL) {
				t.Errorf("a QP of type %d with %+v: %d, %v", typ, c, h, err)
			}
		}
	}
	for _, a := range []abi.SRQAttr{{MaxWR: most, MaxSGE: 1}, {MaxWR: 1 << 16, MaxSGE: 1}, {MaxWR: 1, MaxSGE: most},
		{MaxWR: 1, MaxSGE: 4096}} {
		if h, err := v.CreateSRQ(b.pd, &abi.SRQInitAttr{Attr: a}); err != error(syscall.EINVAL) {
			t.Errorf("an SRQ with %+v: %d, %v", a, h, err)
		}
	}
}

// TestRXE_Handles gives every method handles that are not of the right kind.
func TestRXE_Handles(t *testing.T) {
	b := newBench(t, uverbs.ByMethod)
	v, r := b.v, b.v.Rings()
	a := &abi.QPInitAttrEx{QPType: abi.IBV_QPT_RC}
	for _, h := range []handle{0, b.dev, b.ctx + 1000, ^handle(0)} {
		for name, err := range map[string]error{
			"OpenDevice":  second(v.OpenDevice(h + 5000)),
			"CloseDevice": v.CloseDevice(h), "AllocPD": second(v.AllocPD(h)), "DeallocPD": v.DeallocPD(h),
			"AllocTD": second(v.AllocTD(h)), "DeallocTD": v.DeallocTD(b.ctx, h),
			"AllocParentDomain": second(v.AllocParentDomain(b.ctx, h, 0)), "RegMR": second(v.RegMR(h, 1, 1, 0)),
			"DeregMR": v.DeregMR(h), "CreateCompChannel": second(v.CreateCompChannel(h)),
			"DestroyCompChannel": v.DestroyCompChannel(h), "ChannelFD": second(v.ChannelFD(h)),
			"CreateCQ":  second(v.CreateCQ(h, 1, 0, 0, 0)),
			"DestroyCQ": v.DestroyCQ(h), "GetCQEvent": v.GetCQEvent(h, new(control.CQEvent)),
			"CreateSRQ": second(v.CreateSRQ(h, new(abi.SRQInitAttr))), "DestroySRQ": v.DestroySRQ(h),
			"ModifySRQ": v.ModifySRQ(h, new(abi.SRQAttr), 0), "QuerySRQ": v.QuerySRQ(h, new(abi.SRQAttr)),
			"CreateQP": second(v.CreateQP(h, a)), "CreateQP of no CQ": second(v.CreateQP(b.pd, a)),
			"DestroyQP": v.DestroyQP(h), "ModifyQP": v.ModifyQP(h, new(abi.QPAttr), 0),
			"QueryQP":  v.QueryQP(h, new(abi.QPAttr), 0, nil),
			"CreateAH": second(v.CreateAH(h, new(abi.AHAttr))), "DestroyAH": v.DestroyAH(h),
			"AttachMcast":   v.AttachMcast(h, new(abi.GID), 0),
			"QueryDevice":   v.QueryDevice(h, new(abi.DeviceAttr)),
			"QueryDeviceEx": v.QueryDeviceEx(h, new(abi.DeviceAttrEx)),
			"QueryPort":     v.QueryPort(h, 1, new(abi.PortAttr)),
			"QueryGID":      v.QueryGID(h, 1, 0, new(abi.GID)),
			"GetAsyncEvent": v.GetAsyncEvent(h, new(abi.AsyncEvent)),
			"InitCQ":        second(r.InitCQ(h)), "InitQP": second(r.InitQP(h, 0)), "InitSRQ": second(r.InitSRQ(h, 0)),
			"InitAH": second(r.InitAH(h)), "SwapCQ": r.SwapCQ(h, 0, 0, 0),
			"DevXGeneralCmd": r.DevXGeneralCmd(h, nil, nil),
		} {
			var e *HandleError
			if !errors.As(err, &e) || !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s of %d: %v", name, h, err)
			}
		}
		v.AckCQEvents(h, 1, nil)
		v.AckAsyncEvent(&abi.AsyncEvent{Element: h})
		v.Watch(h, nil)
		if v.QPNumber(h) != 0 || v.QPState(h) != nil || v.CQCapacity(h) != 0 || v.PDNumber(h) != 0 ||
			v.MR(h) != (control.MR{}) || v.Context(h) != (control.Context{}) || v.Removed(h) {
			t.Errorf("something is known of %d", h)
		}
	}
}

func second[T any](_ T, err error) error { return err }
