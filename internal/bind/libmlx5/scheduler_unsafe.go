package libmlx5

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// struct mlx5dv_pp *mlx5dv_pp_alloc(struct ibv_context *context, size_t pp_context_sz, const void *pp_context,
// uint32_t flags);
// Absent before v29, as is the next.
func (l Lib) PPAlloc(ctx uintptr, context []byte, flags uint32) (pp uintptr, index uint16, err error) {
	pp, err = l.lib.Ptr("mlx5dv_pp_alloc", ctx, uintptr(len(context)),
		uintptr(unsafe.Pointer(unsafe.SliceData(context))), uintptr(flags))
	if err == nil {
		index = cmem.At[abi.MLX5DVPP](pp).Index
	}
	return pp, index, err
}
