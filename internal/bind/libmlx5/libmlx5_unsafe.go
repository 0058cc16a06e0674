// Package libmlx5 calls libmlx5: one method for each C function, named after it, with its prototype above.
package libmlx5

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/loader"
)

// Lib is libmlx5.
type Lib struct{ lib bind.Library }

// Open opens the library that libibverbs has loaded as its driver.
func Open() (Lib, error) {
	l, err := bind.Open(loader.MLX5)
	return Lib{l}, err
}

// bool mlx5dv_is_supported(struct ibv_device *device);
// Absent before v22; in those releases the other functions do not check the device. ctx is a struct ibv_context.
func (l Lib) IsSupported(ctx uintptr) (bool, error) {
	return l.Drives(cmem.At[abi.Context](ctx).Device)
}

// Drives is IsSupported for a struct ibv_device.
func (l Lib) Drives(dev uintptr) (bool, error) {
	is, err := l.lib.Int("mlx5dv_is_supported", dev)
	return is&0xff != 0, err
}

// struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr);
// Absent before v21. It fails if the kernel does not accept attr.
func (l Lib) OpenDevice(dev uintptr, attr *abi.MLX5DVContextAttr) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_open_device", dev, uintptr(unsafe.Pointer(attr)))
}

// OpensWithDevX reports whether ibv_open_device requests DevX, and opens without it if the kernel refuses. Libraries
// from before v29, the release of mlx5dv_pp_alloc, have it on request only.
func (l Lib) OpensWithDevX() bool { return l.lib.Has("mlx5dv_pp_alloc") }

// int mlx5dv_query_device(struct ibv_context *ctx_in, struct mlx5dv_context *attrs_out);
func (l Lib) QueryDevice(ctx uintptr, attr *abi.MLX5DVContext) error {
	return l.lib.Err("mlx5dv_query_device", ctx, uintptr(unsafe.Pointer(attr)))
}

// int mlx5dv_get_clock_info(struct ibv_context *context, struct mlx5dv_clock_info *clock_info);
// Absent before v17.
func (l Lib) GetClockInfo(ctx uintptr, info *abi.MLX5DVClockInfo) error {
	return l.lib.Err("mlx5dv_get_clock_info", ctx, uintptr(unsafe.Pointer(info)))
}

// ClockInfo returns the address of mlx5dv_get_clock_info.
func (l Lib) ClockInfo(uintptr) (control.ClockInfo, error) {
	f, err := l.lib.Symbol("mlx5dv_get_clock_info")
	return control.ClockInfo{Func: f}, err
}

// struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *, struct ibv_cq_init_attr_ex *, struct mlx5dv_cq_init_attr *);
func (l Lib) CreateCQ(ctx uintptr, attr *abi.CQInitAttrEx, dv *abi.MLX5DVCQInitAttr) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_create_cq", ctx, uintptr(unsafe.Pointer(attr)), uintptr(unsafe.Pointer(dv)))
}

// struct ibv_qp *mlx5dv_create_qp(struct ibv_context *, struct ibv_qp_init_attr_ex *, struct mlx5dv_qp_init_attr *);
// Absent before v16.
func (l Lib) CreateQP(ctx uintptr, attr *abi.QPInitAttrEx, dv *abi.MLX5DVQPInitAttr) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_create_qp", ctx, uintptr(unsafe.Pointer(attr)), uintptr(unsafe.Pointer(dv)))
}

// struct ibv_wq *mlx5dv_create_wq(struct ibv_context *, struct ibv_wq_init_attr *, struct mlx5dv_wq_init_attr *);
// Absent before v16.
func (l Lib) CreateWQ(ctx uintptr, attr *abi.WQInitAttr, dv *abi.MLX5DVWQInitAttr) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_create_wq", ctx, uintptr(unsafe.Pointer(attr)), uintptr(unsafe.Pointer(dv)))
}

// struct mlx5dv_qp_ex *mlx5dv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *qp);
// Absent before v24.
func (l Lib) QPExFromIBVQPEx(qp uintptr) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_qp_ex_from_ibv_qp_ex", qp)
}

// int mlx5dv_dci_stream_id_reset(struct ibv_qp *qp, uint16_t stream_id);
// Absent before v37.
func (l Lib) DCIStreamIDReset(qp uintptr, stream uint16) error {
	return l.lib.Err("mlx5dv_dci_stream_id_reset", qp, uintptr(stream))
}

// struct ibv_dm *mlx5dv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *dm_attr,
// struct mlx5dv_alloc_dm_attr *mlx5_dm_attr);
// Absent before v24.
func (l Lib) AllocDM(ctx uintptr, attr *abi.AllocDMAttr, dv *abi.MLX5DVAllocDMAttr) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_alloc_dm", ctx, uintptr(unsafe.Pointer(attr)), uintptr(unsafe.Pointer(dv)))
}

// void *mlx5dv_dm_map_op_addr(struct ibv_dm *dm, uint8_t op);
// Absent before v35.
func (l Lib) DMMapOpAddr(dm uintptr, op uint8) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_dm_map_op_addr", dm, uintptr(op))
}

// struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
// int access, int mlx5_access);
// Absent before v54.
func (l Lib) RegDmabufMR(pd uintptr, off uint64, length int, iova uint64, fd int, access, own uint32) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_reg_dmabuf_mr", pd, uintptr(off), uintptr(length), uintptr(iova), uintptr(fd),
		uintptr(access), uintptr(own))
}

// int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t obj_type);
func (l Lib) initObj(obj *abi.MLX5DVObj, typ uintptr) error {
	return l.lib.Err("mlx5dv_init_obj", uintptr(unsafe.Pointer(obj)), typ)
}

// C writes through a pointer inside obj, so out must be on the heap.

// InitCQ returns the mlx5dv view of a struct ibv_cq.
func (l Lib) InitCQ(cq uintptr) (*abi.MLX5DVCQ, error) {
	out := &abi.MLX5DVCQ{}
	obj := &abi.MLX5DVObj{CQ: abi.MLX5DVInOut{In: cq, Out: cmem.Heap(unsafe.Pointer(out))}}
	return out, l.initObj(obj, abi.MLX5DV_OBJ_CQ)
}

// InitQP returns the mlx5dv view of a struct ibv_qp. mask requests optional fields; CompMask has those that are set.
func (l Lib) InitQP(qp uintptr, mask uint64) (*abi.MLX5DVQP, error) {
	out := &abi.MLX5DVQP{CompMask: mask}
	obj := &abi.MLX5DVObj{QP: abi.MLX5DVInOut{In: qp, Out: cmem.Heap(unsafe.Pointer(out))}}
	return out, l.initObj(obj, abi.MLX5DV_OBJ_QP)
}

// InitSRQ returns the mlx5dv view of a struct ibv_srq. mask requests optional fields; CompMask has
// those that are set.
func (l Lib) InitSRQ(srq uintptr, mask uint64) (*abi.MLX5DVSRQ, error) {
	out := &abi.MLX5DVSRQ{CompMask: mask}
	obj := &abi.MLX5DVObj{SRQ: abi.MLX5DVInOut{In: srq, Out: cmem.Heap(unsafe.Pointer(out))}}
	return out, l.initObj(obj, abi.MLX5DV_OBJ_SRQ)
}

// InitRWQ returns the mlx5dv view of a struct ibv_wq.
func (l Lib) InitRWQ(wq uintptr) (*abi.MLX5DVRWQ, error) {
	out := &abi.MLX5DVRWQ{}
	obj := &abi.MLX5DVObj{RWQ: abi.MLX5DVInOut{In: wq, Out: cmem.Heap(unsafe.Pointer(out))}}
	return out, l.initObj(obj, abi.MLX5DV_OBJ_RWQ)
}

// InitAH returns the address vector of a struct ibv_ah.
func (l Lib) InitAH(ah uintptr) (av uintptr, err error) {
	out := new(abi.MLX5DVAH)
	obj := &abi.MLX5DVObj{AH: abi.MLX5DVInOut{In: ah, Out: cmem.Heap(unsafe.Pointer(out))}}
	err = l.initObj(obj, abi.MLX5DV_OBJ_AH)
	return out.AV, err
}
