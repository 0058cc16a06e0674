package ibv

import (
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// C finds the objects by their handles, which stay valid while Control runs.
func TestFake_Control(t *testing.T) {
	s := fakeSide(t, nil)
	srq := must(s.pd.CreateSRQ(nil))(t)
	qp := must(s.pd.CreateQP(s.cq, s.cq, nil))(t)
	mr := must(s.pd.AllocMR(4096, LocalWrite, nil))(t)
	var dev, pd, cq unsafe.Pointer
	get := func(to *unsafe.Pointer) func(unsafe.Pointer) { return func(h unsafe.Pointer) { *to = h } }
	ok(t, s.dev.Control(get(&dev)))
	ok(t, s.pd.Control(get(&pd)))
	ok(t, s.cq.Control(get(&cq)))
	ok(t, qp.Control(func(h unsafe.Pointer) {
		if c := (*abi.QP)(h); c.QPNum != qp.Num() || c.Context != uintptr(dev) || c.PD != uintptr(pd) ||
			c.SendCQ != uintptr(cq) {
			t.Errorf("%+v", c)
		}
	}))
	ok(t, mr.Control(func(h unsafe.Pointer) {
		if c := (*abi.MR)(h); c.LKey != mr.LKey() || c.PD != uintptr(pd) {
			t.Errorf("%+v", c)
		}
	}))
	ok(t, srq.Control(func(h unsafe.Pointer) {
		if c := (*abi.SRQ)(h); c.PD != uintptr(pd) {
			t.Errorf("%+v", c)
		}
	}))
	wq := must(s.pd.CreateWQ(s.cq, nil))(t)
	ok(t, wq.Control(func(h unsafe.Pointer) {
		if c := (*abi.WQ)(h); c.PD != uintptr(pd) || c.CQ != uintptr(cq) || c.WQNum != wq.Num() {
			t.Errorf("%+v", c)
		}
	}))
	table := must(s.dev.CreateRWQIndTable([]*WQ{wq}))(t)
	ok(t, table.Control(func(h unsafe.Pointer) {
		if c := (*abi.RWQIndTable)(h); c.Context != uintptr(dev) {
			t.Errorf("%+v", c)
		}
	}))
	ok(t, table.Close())
	ok(t, wq.Close())
	closed := make(chan error, 1)
	ok(t, qp.Control(func(unsafe.Pointer) {
		go func() { closed <- qp.Close() }()
		select {
		case err := <-closed:
			t.Errorf("closed under Control: %v", err)
		default:
		}
	}))
	ok(t, <-closed)
	ok(t, mr.Close())
	ok(t, srq.Close())
	never := func(unsafe.Pointer) { t.Error("called with a closed object") }
	wantErr(t, qp.Control(never), ErrClosed, "control qp")
	wantErr(t, mr.Control(never), ErrClosed, "control mr")
	wantErr(t, srq.Control(never), ErrClosed, "control srq")
	other := must(s.dev.AllocPD())(t)
	func() {
		defer func() { _ = recover() }()
		_ = other.Control(func(unsafe.Pointer) { panic("the caller's") })
	}()
	ok(t, other.Close())
	wantErr(t, other.Control(never), ErrClosed, "control pd")
}
