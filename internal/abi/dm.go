package abi

import "structs"

// DM is struct ibv_dm (infiniband/verbs.h, rdma-core v65). Handle is valid if CompMask has IBV_DM_MASK_HANDLE (v35).
type DM struct {
	_            structs.HostLayout
	Context      uintptr
	MemcpyToDM   uintptr // int (struct ibv_dm *, uint64_t dm_offset, const void *host_addr, size_t length)
	MemcpyFromDM uintptr // int (void *host_addr, struct ibv_dm *, uint64_t dm_offset, size_t length)
	CompMask     uint32
	Handle       uint32
}

// AllocDMAttr is struct ibv_alloc_dm_attr (infiniband/verbs.h, rdma-core v65).
type AllocDMAttr struct {
	_           structs.HostLayout
	Length      uintptr
	LogAlignReq uint32
	CompMask    uint32
}

// MLX5DVAllocDMAttr is struct mlx5dv_alloc_dm_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVAllocDMAttr struct {
	_        structs.HostLayout
	Type     uint32
	_        [4]byte
	CompMask uint64
}
