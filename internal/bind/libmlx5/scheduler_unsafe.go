package libmlx5

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// struct mlx5dv_sched_node *mlx5dv_sched_node_create(struct ibv_context *context,
// const struct mlx5dv_sched_attr *sched_attr);
// Absent before v33, as is all of the scheduler.
func (l Lib) SchedNodeCreate(ctx uintptr, attr *abi.MLX5DVSchedAttr) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_sched_node_create", ctx, uintptr(unsafe.Pointer(attr)))
}

// struct mlx5dv_sched_leaf *mlx5dv_sched_leaf_create(struct ibv_context *context,
// const struct mlx5dv_sched_attr *sched_attr);
func (l Lib) SchedLeafCreate(ctx uintptr, attr *abi.MLX5DVSchedAttr) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_sched_leaf_create", ctx, uintptr(unsafe.Pointer(attr)))
}

// int mlx5dv_sched_node_modify(struct mlx5dv_sched_node *node, const struct mlx5dv_sched_attr *sched_attr);
func (l Lib) SchedNodeModify(node uintptr, attr *abi.MLX5DVSchedAttr) error {
	return l.lib.Err("mlx5dv_sched_node_modify", node, uintptr(unsafe.Pointer(attr)))
}

// int mlx5dv_sched_leaf_modify(struct mlx5dv_sched_leaf *leaf, const struct mlx5dv_sched_attr *sched_attr);
func (l Lib) SchedLeafModify(leaf uintptr, attr *abi.MLX5DVSchedAttr) error {
	return l.lib.Err("mlx5dv_sched_leaf_modify", leaf, uintptr(unsafe.Pointer(attr)))
}

// int mlx5dv_sched_node_destroy(struct mlx5dv_sched_node *node);
func (l Lib) SchedNodeDestroy(node uintptr) error {
	return l.lib.Err("mlx5dv_sched_node_destroy", node)
}

// int mlx5dv_sched_leaf_destroy(struct mlx5dv_sched_leaf *leaf);
func (l Lib) SchedLeafDestroy(leaf uintptr) error {
	return l.lib.Err("mlx5dv_sched_leaf_destroy", leaf)
}

// int mlx5dv_modify_qp_sched_elem(struct ibv_qp *qp, const struct mlx5dv_sched_leaf *requestor,
// const struct mlx5dv_sched_leaf *responder);
func (l Lib) ModifyQPSchedElem(qp, requestor, responder uintptr) error {
	return l.lib.Err("mlx5dv_modify_qp_sched_elem", qp, requestor, responder)
}

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

// void mlx5dv_pp_free(struct mlx5dv_pp *pp);
func (l Lib) PPFree(pp uintptr) error { return l.lib.Void("mlx5dv_pp_free", pp) }
