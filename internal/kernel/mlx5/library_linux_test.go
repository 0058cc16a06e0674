package mlx5

import (
	"errors"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind/libibverbs"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// TestRXE_AsLibrary asks libibverbs for what this package is asked for, and compares sizes and attributes.
func TestRXE_AsLibrary(t *testing.T) {
	b := newBench(t, uverbs.ByMethod)
	lib, err := libibverbs.Open()
	if err != nil {
		t.Skip("needs libibverbs: ", err)
	}
	list, devices, err := lib.GetDeviceList()
	b.check(err)
	defer lib.FreeDeviceList(list)
	var ctx handle
	for _, d := range devices {
		if n, _ := lib.GetDeviceName(d); n == b.r.Dev[0] {
			ctx = b.ok(lib.OpenDevice(d))
			if got, want := b.v.Device(b.dev), lib.Device(d); got != want {
				t.Errorf("the device is %+v, want %+v", got, want)
			}
			guid, _ := lib.GetDeviceGUID(d)
			if got, _ := b.v.GetDeviceGUID(b.dev); got != guid {
				t.Errorf("the GUID is %#x, want %#x", got, guid)
			}
		}
	}
	b.later(func() error { return lib.CloseDevice(ctx) })
	got, want := new(abi.DeviceAttrEx), new(abi.DeviceAttrEx)
	b.check(errors.Join(b.v.QueryDeviceEx(b.ctx, got), lib.QueryDeviceEx(ctx, want)))
	if *got != *want {
		t.Errorf("attributes are\n%+v\nwant\n%+v", got, want)
	}
	port, libPort := new(abi.PortAttr), new(abi.PortAttr)
	b.check(errors.Join(b.v.QueryPort(b.ctx, b.r.Port, port), lib.QueryPort(ctx, b.r.Port, libPort)))
	if libPort.ActiveSpeedEx == 0 { // an older library does not know it
		port.ActiveSpeedEx = 0
	}
	if *port != *libPort {
		t.Errorf("the port is\n%+v\nwant\n%+v", port, libPort)
	}
	b.sameSizes(lib, ctx)
}

// sameSizes compares what is granted.
func (b *bench) sameSizes(lib control.Verbs, ctx handle) {
	pd := b.ok(lib.AllocPD(ctx))
	b.later(func() error { return lib.DeallocPD(pd) })
	cq := b.ok(lib.CreateCQ(ctx, 100, 0, 0, 0))
	b.later(func() error { return lib.DestroyCQ(cq) })
	tried, granted := 0, 0
	for _, typ := range []uint32{abi.IBV_QPT_RC, abi.IBV_QPT_UC, abi.IBV_QPT_UD} {
		for _, c := range capacities() {
			native := &abi.QPInitAttrEx{SendCQ: b.cq, RecvCQ: b.cq, QPType: typ, Cap: c}
			library := &abi.QPInitAttrEx{SendCQ: cq, RecvCQ: cq, QPType: typ, Cap: c}
			h, err := b.v.CreateQP(b.pd, native)
			l, want := lib.CreateQP(pd, library)
			tried++
			if (err == nil) != (want == nil) || err != nil && !errors.Is(want, err) { // an errno alone
				b.Errorf("a QP of type %d with %+v: %v, want %v", typ, c, err, want)
			} else if err == nil && native.Cap != library.Cap {
				b.Errorf("a QP of type %d with %+v has %+v, want %+v", typ, c, native.Cap, library.Cap)
			}
			if err == nil {
				granted++
				b.check(b.v.DestroyQP(h))
			}
			if want == nil {
				b.check(lib.DestroyQP(l))
			}
		}
	}
	if granted < tried/2 || granted == tried {
		b.Errorf("%d of %d QPs were made", granted, tried)
	}
	for _, a := range []abi.SRQAttr{{MaxWR: 1, MaxSGE: 1}, {MaxWR: 100, MaxSGE: 3}, {MaxWR: 127, MaxSGE: 4},
		{MaxWR: 128, MaxSGE: 0}, {MaxWR: 32767, MaxSGE: 31}, {MaxWR: 1, MaxSGE: 32}, {MaxWR: 1 << 20, MaxSGE: 1}} {
		native, library := &abi.SRQInitAttr{Attr: a}, &abi.SRQInitAttr{Attr: a}
		h, err := b.v.CreateSRQ(b.pd, native)
		l, want := lib.CreateSRQ(pd, library)
		if (err == nil) != (want == nil) || err == nil && native.Attr != library.Attr {
			b.Errorf("an SRQ with %+v has %+v, %v; want %+v, %v", a, native.Attr, err, library.Attr, want)
		}
		if err == nil {
			b.check(b.v.DestroySRQ(h))
		}
		if want == nil {
			b.check(lib.DestroySRQ(l))
		}
	}
	for _, n := range []int{1, 2, 3, 63, 64, 1000, 1 << 22, 1<<22 - 1} {
		h, err := b.v.CreateCQ(b.ctx, n, 0, 0, 0)
		l, want := lib.CreateCQ(ctx, n, 0, 0, 0)
		if (err == nil) != (want == nil) || err == nil && b.v.CQCapacity(h) != lib.CQCapacity(l) {
			b.Errorf("a CQ of %d: %d entries, %v; want %d, %v", n, b.v.CQCapacity(h), err, lib.CQCapacity(l), want)
		}
		if err == nil {
			b.check(b.v.DestroyCQ(h))
		}
		if want == nil {
			b.check(lib.DestroyCQ(l))
		}
	}
	if h, err := b.v.CreateCQ(b.ctx, 0, 0, 0, 0); err != error(syscall.EINVAL) {
		b.Errorf("a CQ of 0: %d, %v", h, err)
	}
}

// capacities are many.
func capacities() (list []abi.QPCap) {
	for _, wr := range []uint32{0, 1, 64, 1000, 32768} {
		for _, sge := range []uint32{0, 1, 2, 5, 16, 30, 31, 62} {
			for _, inline := range []uint32{0, 1, 28, 29, 60, 61, 124, 512, 828, 829, 1000, 1025} {
				list = append(list, abi.QPCap{MaxSendWR: wr, MaxSendSGE: sge, MaxInlineData: inline, MaxRecvWR: wr,
					MaxRecvSGE: sge})
			}
		}
	}
	return list
}
