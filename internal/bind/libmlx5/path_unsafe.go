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

// int mlx5dv_modify_qp_lag_port(struct ibv_qp *qp, uint8_t port_num);
// Absent before v30.
func (l Lib) ModifyQPLAGPort(qp uintptr, port uint8) error {
	return l.lib.Err("mlx5dv_modify_qp_lag_port", qp, uintptr(port))
}

// int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t udp_sport);
// Absent before v33.
func (l Lib) ModifyQPUDPSport(qp uintptr, port uint16) error {
	return l.lib.Err("mlx5dv_modify_qp_udp_sport", qp, uintptr(port))
}

// int mlx5dv_map_ah_to_qp(struct ibv_ah *ah, uint32_t qp_num);
// Absent before v36.
func (l Lib) MapAHToQP(ah uintptr, qpn uint32) error {
	return l.lib.Err("mlx5dv_map_ah_to_qp", ah, uintptr(qpn))
}

// int mlx5dv_qp_cancel_posted_send_wrs(struct mlx5dv_qp_ex *mqp, uint64_t wr_id);
// Absent before v36. It returns how many it found, or -errno.
func (l Lib) QPCancelPostedSendWRs(mqp uintptr, id uint64) (int, error) {
	return l.lib.NegErrno("mlx5dv_qp_cancel_posted_send_wrs", mqp, uintptr(id))
}

// int mlx5dv_reserved_qpn_alloc(struct ibv_context *ctx, uint32_t *qpn);
// Absent before v34.
func (l Lib) ReservedQPNAlloc(ctx uintptr) (uint32, error) {
	qpn := new(uint32)
	err := l.lib.Err("mlx5dv_reserved_qpn_alloc", ctx, uintptr(unsafe.Pointer(qpn)))
	return *qpn, err
}

// int mlx5dv_reserved_qpn_dealloc(struct ibv_context *ctx, uint32_t qpn);
// Absent before v34.
func (l Lib) ReservedQPNDealloc(ctx uintptr, qpn uint32) error {
	return l.lib.Err("mlx5dv_reserved_qpn_dealloc", ctx, uintptr(qpn))
}

// struct mlx5dv_var *mlx5dv_alloc_var(struct ibv_context *context, uint32_t flags);
// Absent before v28.
func (l Lib) AllocVAR(ctx uintptr) (*abi.MLX5DVVAR, uintptr, error) {
	p, err := l.lib.Ptr("mlx5dv_alloc_var", ctx, 0)
	return cmem.At[abi.MLX5DVVAR](p), p, err
}

// void mlx5dv_free_var(struct mlx5dv_var *dv_var);
// Absent before v28.
func (l Lib) FreeVAR(v uintptr) error { return l.lib.Void("mlx5dv_free_var", v) }

// int mlx5dv_set_context_attr(struct ibv_context *context, enum mlx5dv_set_ctx_attr_type type, void *attr);
func (l Lib) SetContextAllocators(ctx uintptr, a *abi.MLX5DVCtxAllocators) error {
	return l.lib.Err("mlx5dv_set_context_attr", ctx, abi.MLX5DV_CTX_ATTR_BUF_ALLOCATORS, uintptr(unsafe.Pointer(a)))
}

// int mlx5dv_get_data_direct_sysfs_path(struct ibv_context *context, char *buf, size_t buf_len);
// Absent before v54.
func (l Lib) GetDataDirectSysfsPath(ctx uintptr, buf []byte) error {
	return l.lib.Err("mlx5dv_get_data_direct_sysfs_path", ctx,
		uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
}
