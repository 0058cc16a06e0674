package ibv

import (
	"math"
)

// ofNull is MR.fixed of a null MR.
const ofNull = "a null MR"

// AllocNullMR makes an MR of no memory, for SGEs of any address and length: a send from it sends zeros, and data that
// arrives there is lost. Its SGEs replace padding, or parts of a message that are not needed. Peers cannot use it.
//
// C: ibv_alloc_null_mr(3).
func (pd *PD) AllocNullMR() (*MR, error) {
	mr := &MR{pd: pd, length: math.MaxInt, fixed: ofNull}
	return mr.open("alloc null mr", func() (uintptr, error) {
		h, err := pd.dev.v.AllocNullMR(pd.dev.handle, pd.handle)
		return h, pd.dev.explainLack(err, "a null MR", "libibverbs of rdma-core v20 or later",
			"a provider with support for it, such as mlx5", "; use a buffer of its own for what is not needed")
	})
}
