package mlx5

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// replied reports whether an error is about a field of a reply.
func replied(err error, command string) bool {
	var e *uverbs.ReplyError
	return errors.As(err, &e) && e.Command == command
}

// TestUARLength: a page of registers has room for them, and is not larger than a page of any processor.
func TestUARLength(t *testing.T) {
	for _, tt := range []struct {
		length uint32
		ok     bool
	}{{0, false}, {8, false}, {2048, false}, {4095, false}, {4096, true}, {4100, false}, {8192, true}, {65536, true},
		{65536 + 4096, false}, {1 << 20, false}, {1<<32 - 4096, false}} {
		k := &fakeKernel{t: t}
		k.spoil = func(_ *fakeKernel, _ string, b []byte) {
			if n := uint32(4096); slices.Equal(b, uverbs.Bytes(&n)) { // nothing else has this value
				copy(b, uverbs.Bytes(&tt.length))
			}
		}
		v, dev := k.device()
		ctx, err := v.OpenDevice(dev)
		if tt.ok != (err == nil) || err != nil && !replied(err, "uar_alloc") {
			t.Errorf("%d bytes: %v", tt.length, err)
		}
		if err == nil {
			td, err := v.AllocTD(ctx) // takes a register of a page
			if err := errors.Join(err, v.DeallocTD(ctx, td), v.CloseDevice(ctx)); err != nil {
				t.Errorf("%d bytes: %v", tt.length, err)
			}
		}
		k.end()
	}
}

// pairOn makes a QP with what it needs.
func pairOn(v *Verbs, dev handle) (ctx, pd, cq, qp handle, err error) {
	ctx, err = v.OpenDevice(dev)
	if err != nil {
		return
	}
	pd, err1 := v.AllocPD(ctx)
	cq, err2 := v.CreateCQ(ctx, 10, 0, 0, 0)
	qp, err = v.CreateQP(pd, &abi.QPInitAttrEx{SendCQ: cq, RecvCQ: cq, QPType: abi.IBV_QPT_RC,
		Cap: abi.QPCap{MaxSendWR: 4, MaxSendSGE: 1, MaxRecvWR: 4, MaxRecvSGE: 1}})
	return ctx, pd, cq, qp, errors.Join(err1, err2, err)
}

// TestRegisterIndex: a kernel that makes registers with the context gives a QP one of them. goodContext has 16, on 8
// UARs with numbers for 4 each.
func TestRegisterIndex(t *testing.T) {
	for _, tt := range []struct {
		index uint32
		ok    bool
	}{{0, true}, {31, true}, {32, false}, {33, false}, {1 << 16, false}, {1<<32 - 1, false}} {
		k := &fakeKernel{t: t, static: true}
		k.spoil = func(_ *fakeKernel, _ string, b []byte) {
			if len(b) == len(uverbs.Bytes(new(abi.MLX5IBCreateQPResp))) {
				copy(b, uverbs.Bytes(&tt.index))
			}
		}
		v, dev := k.device()
		ctx, _, _, _, err := pairOn(v, dev)
		if tt.ok != (err == nil) || err != nil && !replied(err, "create_qp") {
			t.Errorf("register %d: %v", tt.index, err)
		}
		if err := v.CloseDevice(ctx); err != nil {
			t.Error(err)
		}
		k.end()
	}
}

// TestLost: what a kernel does not find can be closed, and what it then says is busy. The device may still use the
// queues, so no later object gets them.
func TestLost(t *testing.T) {
	k := &fakeKernel{t: t}
	v, dev := k.device()
	ctx, pd, cq, qp, err := pairOn(v, dev)
	if err != nil {
		t.Fatal(err)
	}
	answer := map[[2]uint16]syscall.Errno{{4, 1}: syscall.EBUSY, {3, 1}: syscall.EBUSY, {1, 0}: syscall.EBUSY}
	k.fail = func(object, method uint16) syscall.Errno { return answer[[2]uint16{object, method}] }
	for _, err := range []error{v.DestroyQP(qp), v.DestroyCQ(cq), v.DeallocPD(pd)} {
		if err != error(syscall.EBUSY) {
			t.Errorf("busy, and nothing lost: %v", err)
		}
	}
	o, err := v.Rings().InitCQ(cq)
	if err != nil {
		t.Fatal(err)
	}
	answer[[2]uint16{4, 1}] = syscall.ENOENT
	for _, err := range []error{v.DestroyQP(qp), v.DestroyCQ(cq), v.DeallocPD(pd)} {
		if err != nil {
			t.Error(err)
		}
	}
	k.fail = nil
	for range 100 {
		cq, err := v.CreateCQ(ctx, 10, 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := v.Rings().InitCQ(cq); err != nil || n.Buf == o.Buf || n.DBRec == o.DBRec {
			t.Fatalf("a new CQ has the ring of a lost one: %v", err)
		}
	}
	if err := v.CloseDevice(ctx); err != nil {
		t.Error(err)
	}
	k.end()
}

// TestEventsOfNobody: a wrong count of events is an error, and the next call ends the object.
func TestEventsOfNobody(t *testing.T) {
	k := &fakeKernel{t: t}
	v, dev := k.device()
	ctx, _, cq, qp, err := pairOn(v, dev)
	if err != nil {
		t.Fatal(err)
	}
	k.spoil = func(_ *fakeKernel, what string, b []byte) { b[0] = 5 }
	if err := v.DestroyQP(qp); !replied(err, "destroy_qp") {
		t.Errorf("5 events of a QP: %v", err)
	}
	if err := v.DestroyCQ(cq); !replied(err, "destroy_cq") {
		t.Errorf("5 events of a CQ: %v", err)
	}
	k.fail = func(uint16, uint16) syscall.Errno { return syscall.ENOENT }
	if err := errors.Join(v.DestroyQP(qp), v.DestroyCQ(cq), v.CloseDevice(ctx)); err != nil {
		t.Error(err)
	}
	k.end()
}

// FuzzReplies: the bytes of data replace those of replies, from the n-th on.
func FuzzReplies(f *testing.F) {
	for n := range uint8(60) {
		f.Add([]byte{0xff, 0xff, 0xff, 0xff}, n, n%2 == 0)
		f.Add([]byte{8}, n, n%3 == 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, n uint8, static bool) {
		k := &fakeKernel{t: t, static: static}
		k.spoil = func(k *fakeKernel, _ string, b []byte) {
			if k.calls > int(n) && len(data) > 0 && !k.isFD(b) {
				data = data[copy(b, data):]
			}
		}
		v, dev := k.device()
		for _, err := range use(v, dev, 10) {
			if !expected(err) {
				t.Error(err)
			}
		}
		if n := len(v.table.objects); n > 2 {
			t.Errorf("%d objects are left", n-1)
		}
		k.end()
	})
}
