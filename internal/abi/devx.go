package abi

import "structs"

// MLX5DVDevXUAR is struct mlx5dv_devx_uar (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVDevXUAR struct {
	_        structs.HostLayout
	RegAddr  uintptr
	BaseAddr uintptr
	PageID   uint32
	_        [4]byte
	MmapOff  int64
	CompMask uint64
}

// MLX5DVDevXUmemIn is struct mlx5dv_devx_umem_in (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVDevXUmemIn struct {
	_          structs.HostLayout
	Addr       uintptr
	Size       uintptr
	Access     uint32
	_          [4]byte
	PgszBitmap uint64
	CompMask   uint64
	DmabufFD   int32
	_          [4]byte
}

// MLX5DVVAR is struct mlx5dv_var (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVVAR struct {
	_        structs.HostLayout
	PageID   uint32
	Length   uint32
	MmapOff  int64
	CompMask uint64
}

// MLX5DVContextAttr is struct mlx5dv_context_attr (infiniband/mlx5dv.h, rdma-core v65). Before v57 it ends in front of
// FDs, which is valid only with a bit of CompMask.
type MLX5DVContextAttr struct {
	_        structs.HostLayout
	Flags    uint32 // enum mlx5dv_context_attr_flags
	CompMask uint64
	FDs      uintptr
}

// MLX5DVCtxAllocators is struct mlx5dv_ctx_allocators (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVCtxAllocators struct {
	_     structs.HostLayout
	Alloc uintptr
	Free  uintptr
	Data  uintptr
}

// Constants of DevX and of what else mlx5dv has for a device.
const (
	MLX5DV_CTX_ATTR_BUF_ALLOCATORS                      = 1
	MLX5DV_UMEM_MASK_DMABUF                             = 1
	MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA = 1
	MLX5DV_CONTEXT_FLAGS_DEVX                           = 1 << 0
	MLX5DV_UAR_ALLOC_TYPE_BF                            = 0
	MLX5DV_UAR_ALLOC_TYPE_NC                            = 1
	MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED                  = 1 << 31
)
