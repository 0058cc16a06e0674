package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/ops"
	"github.com/pureverbs/pureverbs/internal/work"
)

// OpBindMW binds a memory window of type 2. C: IBV_WR_BIND_MW.
const OpBindMW Opcode = 8

// BindMW binds a memory window of type 2. The Batch keeps bind, which must not change before
// Post.
func (b *Batch) BindMW(id uint64, flags SendFlags, bind *BindMW) {
	wr := b.next(id, OpBindMW, flags, SGE{})
	wr.SGEs, wr.Bind = nil, bind
}

// windowAccess are the rights that a memory window can give.
const windowAccess = RemoteRead | RemoteWrite | RemoteAtomic | ZeroBased

// maxWindow is the longest window of mlx5, whose translation entry has 31 bits, and 0 for 2 GiB.
const maxWindow = 1 << 31

// checkBind reports what is wrong with a work request of OpBindMW.
//
//kind:check OpBindMW
func checkBind(qp *QP, wr *SendWR) error {
	b := wr.Bind
	if err := checkBare(wr); err != nil {
		return err
	}
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

// acquire keeps the window and its MR open while the bind is posted, and returns what engines
// need of it. It never waits, as AH.acquire.
func (b *BindMW) acquire() (w work.Bind, err error) {
	if !b.MW.life.TryEnter() {
		return w, b.MW.errClosed("bind mw")
	}
	w = work.Bind{MW: b.MW.handle, MR: b.MW.noMR, Type: uint32(b.MW.typ), Key: b.MW.RKey(), NewKey: b.RKey,
		Access: uint32(b.Access), Addr: b.Addr, Length: b.Length}
	if b.MR == nil {
		return w, nil
	}
	if !b.MR.life.TryEnter() {
		b.MW.life.Leave()
		return w, b.MR.errClosed("bind mw")
	}
	w.MR, w.LKey = b.MR.handle, b.MR.lkey
	return w, nil
}

func (b *BindMW) release() {
	b.MW.life.Leave()
	if b.MR != nil {
		b.MR.life.Leave()
	}
}

// addBind builds the bind on the direct data path.
//
//kind:add OpBindMW
func addBind(qp *QP, wr *SendWR) (ok bool, err error) {
	w, err := wr.Bind.acquire()
	if err != nil {
		return false, err
	}
	ok = qp.sq.direct.SQ.Bind(wr.ID, uint32(wr.Flags), &w)
	wr.Bind.release()
	return ok, nil
}

// fillBind writes the bind into slot i of the chain and acquires its objects.
//
//kind:fill OpBindMW
func fillBind(c *ops.SendChain, i int, wr *SendWR) error {
	w, err := wr.Bind.acquire()
	if err == nil {
		c.FillBind(i, request(wr), &w)
	}
	return err
}

//kind:release OpBindMW
func releaseBind(wr *SendWR) { wr.Bind.release() }

// postedBind gives the window its new key.
//
//kind:posted OpBindMW
func postedBind(wr *SendWR) { wr.Bind.MW.key.Store(wr.Bind.RKey) }
