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

// OpensWithDevX reports whether ibv_open_device requests DevX, and opens without it if the kernel refuses. Libraries
// from before v29, the release of mlx5dv_pp_alloc, have it on request only.
func (l Lib) OpensWithDevX() bool { return l.lib.Has("mlx5dv_pp_alloc") }

// ClockInfo returns the address of mlx5dv_get_clock_info.
func (l Lib) ClockInfo(uintptr) (control.ClockInfo, error) {
	f, err := l.lib.Symbol("mlx5dv_get_clock_info")
	return control.ClockInfo{Func: f}, err
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
