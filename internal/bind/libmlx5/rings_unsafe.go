package libmlx5

import (
	"runtime"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// libmlx5 has no functions for what is in this file. The kernel's commands are sent to its context.

func file(ctx uintptr) *uverbs.File {
	const driver = 1 // C: RDMA_DRIVER_MLX5
	return uverbs.Lent(int(cmem.At[abi.Context](ctx).CmdFD), driver)
}

// SwapCQ makes the device use another ring for a struct ibv_cq: entries is a power of two, and not as many as the CQ
// has.
//
// C: mlx5_resize_cq (rdma-core v44.0, providers/mlx5/verbs.c:1212).
func (l Lib) SwapCQ(cq, buf uintptr, entries, size uint32) error {
	c := cmem.At[abi.CQ](cq)
	runtime.LockOSThread() // for bind.Explain
	defer runtime.UnlockOSThread()
	own := &abi.MLX5IBResizeCQ{BufAddr: uint64(buf), CQESize: uint16(size)}
	return bind.Explain(c.Context, file(c.Context).ResizeCQ(c.Handle, entries-1, uverbs.Bytes(own)))
}

// NoInlineHeaders asks the kernel whether the device wants no header of a frame in the work request.
//
// C: mlx5_query_context (rdma-core v44.0, providers/mlx5/mlx5.c).
func (l Lib) NoInlineHeaders(ctx uintptr) (bool, error) {
	resp := new(abi.MLX5IBAllocUcontextResp)
	err := uverbs.DriverContext(file(ctx), abi.MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, uverbs.Bytes(resp))
	return err == nil && resp.EthMinInline == abi.MLX5_USER_INLINE_MODE_NONE, err
}
