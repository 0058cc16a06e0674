package ibv

import (
	"errors"
	"math"

	"github.com/pureverbs/pureverbs/internal/control"
)

// ofNull is MR.fixed of a null MR.
const ofNull = "a null MR"

// AllocNullMR makes an MR of no memory, for SGEs of any address and length: a send from it sends zeros, and data that
// arrives there is lost. Its SGEs replace padding, or parts of a message that are not needed. Peers cannot use it.
//
// C: ibv_alloc_null_mr(3).
func (pd *PD) AllocNullMR() (*MR, error) {
	const op = "alloc null mr"
	if err := pd.enter(op); err != nil {
		return nil, err
	}
	defer pd.leave()
	h, err := pd.dev.v.AllocNullMR(pd.dev.handle, pd.handle)
	switch {
	case errors.Is(err, control.ErrNoOp):
		err = pd.dev.v.lacks("a null MR", "libibverbs of rdma-core v20 or later",
			"; use a buffer of its own for what is not needed")
	case err != nil && unsupported(err):
		err = &UnsupportedError{Feature: "a null MR", Need: "a provider with support for it, such as mlx5",
			Have: pd.dev.Name() + " without it; use a buffer of its own for what is not needed"}
	}
	if err != nil {
		return nil, &OpError{Op: op, Object: pd.dev.Name(), Err: err}
	}
	mr := &MR{pd: pd, length: math.MaxInt, fixed: ofNull}
	mr.opened(h)
	return mr, nil
}
