package ibv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ops"
	"github.com/pureverbs/pureverbs/internal/work"
)

// BindMW posts the bind of a memory window of type 1, which completes like a work request, as
// WCBindMW. It chooses the window's next key and stores it in b.RKey. The key before is invalid
// once the bind has completed.
//
// C: ibv_bind_mw(3).
func (qp *QP) BindMW(id uint64, flags SendFlags, b *BindMW) error {
	const op = "bind mw"
	fail := func(err error) error { return &OpError{Op: op, Object: qp.name, Err: err} }
	switch {
	case qp.sq.onlySendOps:
		return fail(&ArgError{Arg: "QP", Got: "one with SendOps", Want: "one without, to bind windows of type 1"})
	case qp.sq.ops>>OpBindMW&1 == 0:
		return fail(&ArgError{Arg: "QP", Got: qp.typ.String(), Want: "RC, UC or XRCSend, to bind windows"})
	case flags&^(Fence|Signaled|Solicited) != 0:
		return fail(&ArgError{Arg: "Flags", Got: flags.String(), Want: "of Fence, Signaled and Solicited"})
	}
	if err := b.check(qp); err != nil {
		return fail(err)
	}
	if b.MW.typ != MWType1 {
		return fail(&ArgError{Arg: "Bind.MW", Got: "a window of " + b.MW.typ.String(),
			Want: "one of type 1: post OpBindMW for type 2"})
	}
	b.MW.mu.Lock()
	defer b.MW.mu.Unlock()
	w, err := b.acquire()
	if err != nil {
		return err
	}
	defer b.release()
	w.NewKey = NextRKey(w.Key)
	if err := qp.sq.postBind(id, flags, &w); err != nil {
		return err
	}
	b.RKey = w.NewKey
	b.MW.key.Store(w.NewKey)
	return nil
}

// postBind posts the bind of a window of type 1.
func (sq *sender) postBind(id uint64, flags SendFlags, w *work.Bind) error {
	sq.mu.Lock()
	defer sq.mu.Unlock()
	switch {
	case sq.chain == nil && sq.direct == nil:
		return sq.errs.gone
	case !sq.maySend():
		return sq.sendState(sq.qp.loadState())
	case sq.direct == nil:
		return sq.bindOps(id, flags, w)
	case sq.direct.Broken():
		return sq.errs.broken
	case !sq.direct.SQ.Bind(id, uint32(flags), w):
		return sq.directFull()
	}
	sq.direct.SQ.Ring()
	return nil
}

func (sq *sender) bindOps(id uint64, flags SendFlags, w *work.Bind) error {
	qp := sq.qp
	bind := &abi.MWBind{WRID: id, SendFlags: uint32(flags), BindInfo: *ops.BindInfo(w)}
	err := qp.pd.dev.v.BindMW(qp.pd.dev.handle, qp.handle, w.MW, bind)
	var errno syscall.Errno
	switch {
	case err == nil:
		sq.chain.CountBind(uint32(flags))
		return nil
	case unsupported(err):
		return &OpError{Op: "bind mw", Object: qp.name, Err: &UnsupportedError{Feature: "binding a window of type 1",
			Need: "a provider with ibv_bind_mw, and an ordinary MR", Have: fmt.Sprint(qp.pd.dev.Name(), ": ", err)}}
	case errors.As(err, &errno) && !errors.Is(err, ErrDeviceRemoved):
		return sq.sendErrno(int(errno), OpBindMW)
	}
	return &OpError{Op: "bind mw", Object: qp.name, Err: err}
}
