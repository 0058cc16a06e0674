package mlx5

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/dma"
	rings "github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/work"
)

var _ = []any{bytes.Equal, unsafe.Pointer(nil), cmem.Pointer, dma.Alloc, rings.NewCQ, work.SendWR{}}

// open opens a device of the tier.
func open(t *testing.T, v *Verbs, name string) control.Handle {
	t.Helper()
	list, devices, err := v.GetDeviceList()
	if err != nil {
		t.Fatal(err)
	}
	defer v.FreeDeviceList(list)
	for _, d := range devices {
		if n, _ := v.GetDeviceName(d); n != name {
			continue
		}
		ctx, err := v.OpenDevice(d)
		if err != nil {
			t.Fatal(err)
		}
		return ctx
	}
	t.Fatalf("%s is not among %d devices", name, len(devices))
	return 0
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestRXE_RC(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !r.Emulated && !r.Hardware {
		t.Skip("drives mlx5 devices only")
	}
	v := New()
	ctx := open(t, v, r.Dev[0])
	h := must[control.Handle](t)
	attr := new(abi.DeviceAttrEx)
	if err := v.QueryDeviceEx(ctx, attr); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", attr)
	pd := h(v.AllocPD(ctx))
	ch := h(v.CreateCompChannel(ctx))
	cq := h(v.CreateCQ(ctx, 100, 7, ch, 0))
	mem := make([]byte, 4096)
	mr := h(v.RegMR(pd, cmem.SliceAddr(mem), len(mem), abi.IBV_ACCESS_LOCAL_WRITE))
	init := &abi.QPInitAttrEx{SendCQ: cq, RecvCQ: cq, QPType: abi.IBV_QPT_RC,
		Cap: abi.QPCap{MaxSendWR: 10, MaxRecvWR: 10, MaxSendSGE: 1, MaxRecvSGE: 1}}
	qp := h(v.CreateQP(pd, init))
	t.Logf("%+v, number %#x", init.Cap, v.QPNumber(qp))
	gid := new(abi.GID)
	if err := v.QueryGID(ctx, r.Port, r.GID, gid); err != nil {
		t.Fatal(err)
	}
	a := &abi.QPAttr{QPState: abi.IBV_QPS_INIT, PortNum: r.Port}
	if err := v.ModifyQP(qp, a, abi.IBV_QP_STATE|abi.IBV_QP_PORT|abi.IBV_QP_PKEY_INDEX|abi.IBV_QP_ACCESS_FLAGS); err != nil {
		t.Fatal(err)
	}
	a = &abi.QPAttr{QPState: abi.IBV_QPS_RTR, PathMTU: 3, DestQPNum: v.QPNumber(qp), MaxDestRdAtomic: 1, MinRNRTimer: 12,
		AHAttr: abi.AHAttr{IsGlobal: 1, PortNum: r.Port, GRH: abi.GlobalRoute{DGID: *gid, SGIDIndex: uint8(r.GID), HopLimit: 64}}}
	if err := v.ModifyQP(qp, a, abi.IBV_QP_STATE|abi.IBV_QP_AV|abi.IBV_QP_PATH_MTU|abi.IBV_QP_DEST_QPN|abi.IBV_QP_RQ_PSN|
		abi.IBV_QP_MAX_DEST_RD_ATOMIC|abi.IBV_QP_MIN_RNR_TIMER); err != nil {
		t.Fatal(err)
	}
	a = &abi.QPAttr{QPState: abi.IBV_QPS_RTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1}
	if err := v.ModifyQP(qp, a, abi.IBV_QP_STATE|abi.IBV_QP_TIMEOUT|abi.IBV_QP_RETRY_CNT|abi.IBV_QP_RNR_RETRY|
		abi.IBV_QP_SQ_PSN|abi.IBV_QP_MAX_QP_RD_ATOMIC); err != nil {
		t.Fatal(err)
	}
	for _, f := range []func() error{
		func() error { return v.DestroyQP(qp) }, func() error { return v.DeregMR(mr) }, func() error { return v.DestroyCQ(cq) },
		func() error { return v.DestroyCompChannel(ch) }, func() error { return v.DeallocPD(pd) },
		func() error { return v.CloseDevice(ctx) },
	} {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
}
