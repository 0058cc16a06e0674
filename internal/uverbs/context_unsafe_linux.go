package uverbs

import "unsafe"

const (
	methodQuery    = 4       // C: UVERBS_METHOD_QUERY_CONTEXT
	driverMLX5     = 1       // C: RDMA_DRIVER_MLX5
	attrContext    = 1 << 12 // C: MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX
	contextSize    = 72      // C: struct mlx5_ib_alloc_ucontext_resp, up to dump_fill_mkey
	ethMinInline   = 46      // its offset there
	inlineModeNone = 1       // C: MLX5_USER_INLINE_MODE_NONE
)

// NoInlineHeaders reports whether the WQEs of an mlx5 device need no bytes of a frame. A kernel before 5.9 does not
// report it. fd is the context's descriptor.
//
// C: mlx5_query_context (rdma-core v44.0, providers/mlx5/mlx5.c).
func NoInlineHeaders(fd int) (bool, error) {
	resp := new([contextSize]byte)
	c := &command{object: objectDevice, method: methodQuery, driver: driverMLX5}
	c.add(attrContext, unsafe.Pointer(resp), contextSize)
	if err := c.do(fd); err != nil {
		return false, err
	}
	return resp[ethMinInline] == inlineModeNone, nil
}
