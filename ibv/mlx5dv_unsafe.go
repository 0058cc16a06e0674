package ibv

import (
	"sync/atomic"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/loader"
)

// mlx5dv calls libmlx5 where the data path needs it.
type mlx5dv struct{ lib *loader.Library }

// bool mlx5dv_is_supported(struct ibv_device *device);
func (d *mlx5dv) isSupported(dev uintptr) (bool, error) {
	fn, err := d.lib.Symbol("mlx5dv_is_supported")
	if err != nil {
		return false, err
	}
	return ccall.Int(fn, dev)&0xff != 0, nil
}

// int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t obj_type);
func (d *mlx5dv) initObj(obj *abi.MLX5DVObj, typ uintptr) error {
	v := verbs{lib: d.lib}
	return v.err("mlx5dv_init_obj", uintptr(unsafe.Pointer(obj)), typ)
}

// The out structs are Go memory that C fills during the call: they escape through sink, so that no stack moves under it.

func (d *mlx5dv) cq(cq uintptr) (*abi.MLX5DVCQ, error) {
	out := new(abi.MLX5DVCQ)
	err := d.initObj(&abi.MLX5DVObj{CQ: abi.MLX5DVInOut{In: cq, Out: escape(unsafe.Pointer(out))}}, abi.MLX5DV_OBJ_CQ)
	return out, err
}

func (d *mlx5dv) qp(qp uintptr) (*abi.MLX5DVQP, error) {
	out := new(abi.MLX5DVQP)
	err := d.initObj(&abi.MLX5DVObj{QP: abi.MLX5DVInOut{In: qp, Out: escape(unsafe.Pointer(out))}}, abi.MLX5DV_OBJ_QP)
	return out, err
}

func (d *mlx5dv) srq(srq uintptr) (*abi.MLX5DVSRQ, error) {
	out := new(abi.MLX5DVSRQ)
	err := d.initObj(&abi.MLX5DVObj{SRQ: abi.MLX5DVInOut{In: srq, Out: escape(unsafe.Pointer(out))}}, abi.MLX5DV_OBJ_SRQ)
	return out, err
}

func (d *mlx5dv) ah(ah uintptr) (uintptr, error) {
	out := new(abi.MLX5DVAH)
	err := d.initObj(&abi.MLX5DVObj{AH: abi.MLX5DVInOut{In: ah, Out: escape(unsafe.Pointer(out))}}, abi.MLX5DV_OBJ_AH)
	return out.AV, err
}

// escape moves what p points to to the heap, which does not move, and gives its address. The caller keeps p.
//
//go:noinline
func escape(p unsafe.Pointer) uintptr {
	atomic.StorePointer(&sink, p)
	atomic.StorePointer(&sink, nil)
	return uintptr(p)
}

var sink unsafe.Pointer
