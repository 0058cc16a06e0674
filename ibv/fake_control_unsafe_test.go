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

// C finds what Control lends, and nobody closes it meanwhile.
func TestFake_ControlMore(t *testing.T) {
	s := fakeSide(t, nil)
	ep := must(s.newQP(t, nil).Endpoint(1, 1))(t)
	ah := must(s.pd.CreateAH(must(s.qp.Address(ep, nil))(t)))(t)
	mw := must(s.pd.AllocMW(MWType2))(t)
	ch := must(s.dev.CreateCompChannel())(t)
	for what, lend := range map[string]func(func(unsafe.Pointer)) error{"control ah": ah.Control,
		"control mw": mw.Control, "control comp channel": ch.Control} {
		var handle unsafe.Pointer
		ok(t, lend(func(h unsafe.Pointer) { handle = h }))
		if context := *(*uintptr)(handle); context != s.dev.handle { // the first field of each
			t.Errorf("%s: a context at %#x, want %#x", what, context, s.dev.handle)
		}
	}
	ok(t, mw.Control(func(h unsafe.Pointer) {
		if c := (*abi.MW)(h); c.RKey != mw.RKey() {
			t.Errorf("%+v", c)
		}
	}))
	never := func(unsafe.Pointer) { t.Error("called with a closed object") }
	ok(t, ah.Close())
	wantErr(t, ah.Control(never), ErrClosed, "control ah")
	ok(t, mw.Close())
	wantErr(t, mw.Control(never), ErrClosed, "control mw")
	ok(t, ch.Close())
	wantErr(t, ch.Control(never), ErrClosed, "control comp channel")
}
