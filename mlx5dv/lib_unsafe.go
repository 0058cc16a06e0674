package mlx5dv

import (
	"errors"
	"unsafe"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/hook"
	"github.com/pureverbs/pureverbs/loader"
)

// library calls libmlx5: one method for each C function, named after it, with its
// prototype above.
type library struct{ *loader.Library }

func opError(op, object string, err error) error {
	var e *ibv.OpError
	if errors.As(err, &e) && e.Op == op {
		return err
	}
	return &ibv.OpError{Op: op, Object: object, Err: err}
}

// enter keeps ctx open and makes sure that it is libmlx5's.
func enter(dev *ibv.Device, op string) (lib library, handle uintptr, leave func(), err error) {
	if dev == nil {
		return lib, 0, nil, opError(op, "", &ibv.ArgError{Arg: "ctx", Got: "nil", Want: "an open device"})
	}
	h, leave, err := hook.Enter(dev, op)
	if err != nil {
		return lib, 0, nil, err
	}
	fail := func(err error) (library, uintptr, func(), error) {
		leave()
		return lib, 0, nil, opError(op, dev.Name(), err)
	}
	l, err := loader.Open(loader.MLX5)
	if err != nil {
		return fail(err)
	}
	lib.Library = l
	ok, err := lib.isSupported(h)
	if err != nil {
		return fail(err)
	}
	if !ok {
		return fail(&ibv.UnsupportedError{Feature: op, Need: "a device of libmlx5", Have: dev.Name() + ", which is another provider's"})
	}
	return lib, h, leave, nil
}

// bool mlx5dv_is_supported(struct ibv_device *device);
// Absent before v22, when the others did not look at what device they got.
func (l library) isSupported(ctx uintptr) (bool, error) {
	fn, err := l.Symbol("mlx5dv_is_supported")
	if err != nil {
		return false, err
	}
	return ccall.Int(fn, at[abi.Context](ctx).Device)&0xff != 0, nil
}

// int mlx5dv_query_device(struct ibv_context *ctx_in, struct mlx5dv_context *attrs_out);
func (l library) queryDevice(ctx uintptr, attr *abi.MLX5DVContext) error {
	fn, err := l.Symbol("mlx5dv_query_device")
	if err != nil {
		return err
	}
	return ccall.Err(fn, ctx, uintptr(unsafe.Pointer(attr)))
}

// int mlx5dv_get_clock_info(struct ibv_context *context, struct mlx5dv_clock_info *clock_info);
// Absent before v17.
func (l library) getClockInfo(ctx uintptr, info *abi.MLX5DVClockInfo) error {
	fn, err := l.Symbol("mlx5dv_get_clock_info")
	if err != nil {
		return err
	}
	return ccall.Err(fn, ctx, uintptr(unsafe.Pointer(info)))
}

// struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *, struct ibv_cq_init_attr_ex *, struct mlx5dv_cq_init_attr *);
func (l library) createCQ(ctx uintptr, attr *abi.CQInitAttrEx, dv *abi.MLX5DVCQInitAttr) (uintptr, error) {
	fn, err := l.Symbol("mlx5dv_create_cq")
	if err != nil {
		return 0, err
	}
	return ccall.Ptr(fn, ctx, uintptr(unsafe.Pointer(attr)), uintptr(unsafe.Pointer(dv)))
}

// struct ibv_qp *mlx5dv_create_qp(struct ibv_context *, struct ibv_qp_init_attr_ex *, struct mlx5dv_qp_init_attr *);
// Absent before v16.
func (l library) createQP(ctx uintptr, attr *abi.QPInitAttrEx, dv *abi.MLX5DVQPInitAttr) (uintptr, error) {
	fn, err := l.Symbol("mlx5dv_create_qp")
	if err != nil {
		return 0, err
	}
	return ccall.Ptr(fn, ctx, uintptr(unsafe.Pointer(attr)), uintptr(unsafe.Pointer(dv)))
}

// view is the arguments of a mlx5dv_init_obj. C writes through a pointer inside it,
// so that all of it is one object on the heap.
type view struct {
	obj abi.MLX5DVObj
	qp  abi.MLX5DVQP
	cq  abi.MLX5DVCQ
	srq abi.MLX5DVSRQ
}

// int mlx5dv_init_obj(struct mlx5dv_obj *obj, uint64_t obj_type);
func (l library) initObj(v *view, typ uintptr) error {
	fn, err := l.Symbol("mlx5dv_init_obj")
	if err != nil {
		return err
	}
	return ccall.Err(fn, uintptr(unsafe.Pointer(&v.obj)), typ)
}

// at views C memory at p as a T. The memory is never Go's, so the detour that
// hides the conversion from vet is sound.
func at[T any](p uintptr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) }

func pointer(p uintptr) unsafe.Pointer { return unsafe.Pointer(at[byte](p)) }

func memory(p uintptr, n uint64) []byte {
	if p == 0 {
		return nil
	}
	return unsafe.Slice(at[byte](p), n)
}
