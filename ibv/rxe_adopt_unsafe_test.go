package ibv

import (
	"syscall"
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Adopt adopts C objects of a device that something else has opened, here another Device of this process, and
// moves data by them. The owner's objects work on after Close.
func TestRXE_Adopt(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	owner, peer := newSide(t, 0, nil), newSide(t, 1, nil)
	var c struct{ dev, pd, mr unsafe.Pointer }
	for _, get := range []struct {
		control func(func(unsafe.Pointer)) error
		to      *unsafe.Pointer
	}{{owner.dev.Control, &c.dev}, {owner.pd.Control, &c.pd}, {owner.mr.Control, &c.mr}} {
		ok(t, get.control(func(h unsafe.Pointer) { *get.to = h }))
	}

	a := &side{dev: must(AdoptDevice(c.dev))(t)}
	a.pd = must(a.dev.AdoptPD(c.pd))(t)
	a.mr = must(a.pd.AdoptMR(c.mr, owner.mr.Addr()))(t)
	if a.mr.LKey() != owner.mr.LKey() || a.mr.Remote() != owner.mr.Remote() || a.mr.Len() != owner.mr.Len() ||
		a.mr.Bytes() != nil || a.dev.Name() != rxe.Dev[0] {
		t.Errorf("%s: adopted %+v of %d bytes, want %+v of %d", a.dev.Name(), a.mr.Remote(), a.mr.Len(),
			owner.mr.Remote(), owner.mr.Len())
	}
	a.cq = must(a.dev.CreateCQ(16, nil))(t)
	path, why := a.cq.DataPath()
	if want, _ := owner.cq.DataPath(); path != want {
		t.Errorf("data path %v (%s), want %v", path, why, want)
	}
	a.qp = must(a.pd.CreateQP(a.cq, a.cq, nil))(t)
	qp := peer.newQP(t, nil)
	mine, theirs := must(a.qp.Endpoint(rxe.Port, rxe.GID))(t), must(qp.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, a.qp.Connect(theirs, nil))
	ok(t, qp.Connect(mine, nil))

	fill(owner.mr.Bytes()[:4096], 7)
	post(t, a.qp, SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 4096)},
		Remote: peer.mr.Remote().At(0)})
	a.good(t, 1)
	same(t, peer.mr.Bytes()[:4096], 7)
	post(t, qp, SendWR{ID: 2, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{peer.mr.SGE(0, 4096)},
		Remote: a.mr.Remote().At(8192)})
	peer.good(t, 2)
	same(t, owner.mr.Bytes()[8192:8192+4096], 7)

	wantErr(t, a.mr.Rereg(&ReregOptions{PD: a.pd}), syscall.EINVAL, "adopted")
	wantErr(t, a.pd.Close(), syscall.EBUSY)
	for _, o := range []interface{ Close() error }{a.qp, a.cq, a.mr, a.pd, a.dev} {
		ok(t, o.Close())
	}
	own := owner.newQP(t, nil)
	ok(t, own.Connect(must(own.Endpoint(rxe.Port, rxe.GID))(t), nil))
	post(t, own, SendWR{ID: 3, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{owner.mr.SGE(8192, 4096)},
		Remote: owner.mr.Remote().At(32768)})
	owner.good(t, 3)
	same(t, owner.mr.Bytes()[32768:32768+4096], 7)
}
