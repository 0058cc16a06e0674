package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/work"
)

// windowAccess are the rights that a memory window can give.
const windowAccess = RemoteRead | RemoteWrite | RemoteAtomic | ZeroBased

// maxWindow is the longest window of mlx5, whose translation entry has 31 bits, and 0 for 2 GiB.
const maxWindow = 1 << 31

// checkPosted reports what is wrong with the bind of a posted work request.
func (b *BindMW) checkPosted(qp *QP) error {
	if err := b.check(qp); err != nil {
		return err
	}
	switch key := b.MW.RKey(); {
	case b.MW.typ != MWType2:
		return &ArgError{Arg: "Bind.MW", Got: "a window of " + b.MW.typ.String(), Want: "one of type 2: " +
			"QP.BindMW binds type 1"}
	case (b.RKey^key)>>8 != 0:
		return &ArgError{Arg: "Bind.RKey", Got: fmt.Sprintf("%#x", b.RKey),
			Want: fmt.Sprintf("%#x to %#x: the upper 24 bits are the window's, as NextRKey keeps them", key&^0xff,
				key|0xff)}
	}
	return nil
}

// check reports what is wrong with a bind on qp, whatever the type of the window.
func (b *BindMW) check(qp *QP) error {
	switch {
	case b == nil:
		return &ArgError{Arg: "Bind", Got: "nil", Want: "a window and what to bind it to"}
	case b.MW == nil || b.MW.pd == nil:
		return &ArgError{Arg: "Bind.MW", Got: "no window", Want: "one of PD.AllocMW"}
	case b.MW.pd.root != qp.pd.root:
		return &ArgError{Arg: "Bind.MW", Got: "one of another PD", Want: "one of the QP's PD"}
	case qp.send.path == DataPathOps && b.Length != 0 && b.MW.opsErr != nil:
		return b.MW.opsErr
	case b.Access&^windowAccess != 0:
		return &ArgError{Arg: "Bind.Access", Got: b.Access.String(),
			Want: "of " + windowAccess.String() + "; what else the MR may do does not change"}
	case b.Access&ZeroBased != 0 && b.MW.typ == MWType1:
		return &ArgError{Arg: "Bind.Access", Got: b.Access.String(),
			Want: "without ZeroBased, which is for windows of type 2"}
	case b.MR != nil:
		return b.checkRange()
	case b.Length != 0 || b.Addr != 0:
		return &ArgError{Arg: "Bind.MR", Got: "nil", Want: "an MR; without one, Addr and Length are 0"}
	}
	return nil
}

// checkRange reports what is wrong with the part of the MR.
func (b *BindMW) checkRange() error {
	mr := b.MR
	switch {
	case mr.pd == nil:
		return &ArgError{Arg: "Bind.MR", Got: "the zero value", Want: "a registered MR, or nil"}
	case mr.pd.root != b.MW.pd.root:
		return &ArgError{Arg: "Bind.MR", Got: "one of another PD", Want: "one of the window's PD"}
	case b.Length == 0:
		return nil
	case mr.access&MWBind == 0:
		return &ArgError{Arg: "Bind.MR", Got: "one with " + mr.access.String(), Want: "one registered with MWBind"}
	case b.Access&(RemoteWrite|RemoteAtomic) != 0 && mr.access&LocalWrite == 0:
		return &ArgError{Arg: "Bind.Access", Got: b.Access.String(), Want: "for reading only: the MR was registered " +
			"without LocalWrite"}
	case mr.access&ZeroBased != 0 && b.MW.typ == MWType1:
		return &ArgError{Arg: "Bind.MR", Got: "one with ZeroBased", Want: "one without, for a window of type 1"}
	case b.Addr < mr.iova || b.Addr-mr.iova > uint64(mr.length) || b.Length > uint64(mr.length)-(b.Addr-mr.iova):
		return &ArgError{Arg: "Bind.Addr and Length", Got: fmt.Sprintf("%d bytes at %#x", b.Length, b.Addr),
			Want: fmt.Sprintf("inside the MR: its %d bytes at %#x", mr.length, mr.iova)}
	case b.Length > maxWindow && mr.pd.dev.directError() == nil:
		return &LimitError{What: "window length", Asked: b.Length, Limit: maxWindow,
			Where: "one mlx5 window (use several)"}
	}
	return nil
}

// bindOf returns the bind of a work request whose opcode uses it, nil of others.
func (wr *SendWR) bindOf() *BindMW {
	if work.FieldsOf(uint32(wr.Opcode))&work.Window == 0 {
		return nil
	}
	return wr.Bind
}
