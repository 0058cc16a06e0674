package libmlx5

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// int mlx5dv_query_qp_lag_port(struct ibv_qp *qp, uint8_t *port_num, uint8_t *active_port_num);
// Absent before v30.
func (l Lib) QueryQPLAGPort(qp uintptr) (port, active uint8, err error) {
	p := new([2]uint8)
	err = l.lib.Err("mlx5dv_query_qp_lag_port", qp, uintptr(unsafe.Pointer(&p[0])), uintptr(unsafe.Pointer(&p[1])))
	return p[0], p[1], err
}

// int mlx5dv_reserved_qpn_alloc(struct ibv_context *ctx, uint32_t *qpn);
// Absent before v34.
func (l Lib) ReservedQPNAlloc(ctx uintptr) (uint32, error) {
	qpn := new(uint32)
	err := l.lib.Err("mlx5dv_reserved_qpn_alloc", ctx, uintptr(unsafe.Pointer(qpn)))
	return *qpn, err
}

// struct mlx5dv_var *mlx5dv_alloc_var(struct ibv_context *context, uint32_t flags);
// Absent before v28.
func (l Lib) AllocVAR(ctx uintptr) (*abi.MLX5DVVAR, uintptr, error) {
	p, err := l.lib.Ptr("mlx5dv_alloc_var", ctx, 0)
	return cmem.At[abi.MLX5DVVAR](p), p, err
}

// int mlx5dv_set_context_attr(struct ibv_context *context, enum mlx5dv_set_ctx_attr_type type, void *attr);
func (l Lib) SetContextAllocators(ctx uintptr, a *abi.MLX5DVCtxAllocators) error {
	return l.lib.Err("mlx5dv_set_context_attr", ctx, abi.MLX5DV_CTX_ATTR_BUF_ALLOCATORS, uintptr(unsafe.Pointer(a)))
}
