package ofed

import (
	"runtime"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// The experimental verbs: functions of struct verbs_context_exp, which the header's inline functions call. Their
// additions are also made here.

// locked calls an experimental verb while the context's mutex is held, as the header does for verbs that make and
// destroy objects. The thread that locks a mutex has to unlock it.
func (v Verbs) locked(ctx, dist uintptr, call func(op uintptr) error) error {
	op := abi.ExpOp(ctx, dist)
	if op == 0 {
		return control.ErrNoOp
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mutex := ctx + unsafe.Sizeof(abi.Context{})
	if err := v.lib.Err("pthread_mutex_lock", mutex); err != nil {
		return err
	}
	err := bind.Explain(ctx, call(op))
	if e := v.lib.Err("pthread_mutex_unlock", mutex); err == nil {
		err = e
	}
	return err
}

// struct ibv_cq *(*exp_create_cq)(struct ibv_context *, int cqe, struct ibv_comp_channel *, int comp_vector,
// struct ibv_exp_cq_init_attr *);
func (v Verbs) createCQ(ctx uintptr, cqe int, cookie, channel uintptr, vector int,
	attr *abi.ExpCQInitAttr) (cq uintptr, err error) {
	err = v.locked(ctx, abi.DistExpCreateCQ, func(op uintptr) (err error) {
		cq, err = ccall.Ptr(op, ctx, uintptr(cqe), channel, uintptr(vector), uintptr(unsafe.Pointer(attr)))
		if err != nil {
			return err
		}
		c := cmem.At[abi.CQ](cq)
		c.Context, c.Channel, c.CQContext = ctx, channel, cookie
		if channel != 0 {
			cmem.At[abi.CompChannel](channel).Refcnt++
		}
		shift, _ := abi.TailShift(ctx)
		*cmem.At[[2]uint32](cq + abi.OffCQCompEventsCompleted + shift) = [2]uint32{} // and of async events
		_ = v.lib.Void("pthread_mutex_init", cq+unsafe.Sizeof(abi.CQ{}), 0)
		_ = v.lib.Void("pthread_cond_init", cq+abi.OffCQCond+shift, 0)
		return nil
	})
	return cq, err
}

// struct ibv_qp *(*lib_exp_create_qp)(struct ibv_context *, struct ibv_exp_qp_init_attr *);
// As the inline function does, it leaves what classic creation can do to classic creation.
func (v Verbs) createQP(ctx uintptr, attr *abi.ExpQPInitAttr) (uintptr, error) {
	if attr.CompMask == abi.IBV_EXP_QP_INIT_ATTR_PD {
		return v.lib.Ptr("ibv_create_qp", attr.PD, uintptr(unsafe.Pointer(attr)))
	}
	return bind.OpPtr(ctx, abi.ExpOp(ctx, abi.DistExpCreateQP), ctx, uintptr(unsafe.Pointer(attr)))
}

// int (*lib_exp_modify_qp)(struct ibv_qp *, struct ibv_exp_qp_attr *, uint64_t exp_attr_mask);
func (v Verbs) modifyQP(ctx, qp uintptr, attr *abi.ExpQPAttr, mask uint64) error {
	return bind.OpErr(ctx, abi.ExpOp(ctx, abi.DistExpModifyQP), qp, uintptr(unsafe.Pointer(attr)), uintptr(mask))
}

// struct ibv_exp_dct *(*create_dct)(struct ibv_context *, struct ibv_exp_dct_init_attr *);
func (v Verbs) createDCT(ctx uintptr, attr *abi.ExpDCTInitAttr) (dct uintptr, err error) {
	err = v.locked(ctx, abi.DistExpCreateDCT, func(op uintptr) (err error) {
		if dct, err = ccall.Ptr(op, ctx, uintptr(unsafe.Pointer(attr))); err == nil {
			cmem.At[abi.ExpDCT](dct).Context = ctx
		}
		return err
	})
	return dct, err
}

// int (*destroy_dct)(struct ibv_exp_dct *dct);
func (v Verbs) destroyDCT(ctx, dct uintptr) error {
	return v.Destroyed(ctx, v.locked(ctx, abi.DistExpDestroyDCT, func(op uintptr) error { return ccall.Err(op, dct) }))
}

// int (*query_dct)(struct ibv_exp_dct *dct, struct ibv_exp_dct_attr *attr);
func (v Verbs) queryDCT(ctx, dct uintptr, attr *abi.ExpDCTAttr) error {
	return v.locked(ctx, abi.DistExpQueryDCT, func(op uintptr) error {
		return ccall.Err(op, dct, uintptr(unsafe.Pointer(attr)))
	})
}

// int (*lib_exp_query_device)(struct ibv_context *, struct ibv_exp_device_attr *);
func (v Verbs) queryDevice(ctx uintptr, attr *abi.ExpDeviceAttr) error {
	return bind.OpErr(ctx, abi.ExpOp(ctx, abi.DistExpQueryDevice), ctx, uintptr(unsafe.Pointer(attr)))
}

// int (*drv_exp_query_values)(struct ibv_context *, int q_values, struct ibv_exp_values *);
func (v Verbs) queryValues(ctx uintptr, what uint32, to *abi.ExpValues) error {
	return bind.OpErr(ctx, abi.ExpOp(ctx, abi.DistExpQueryValues), ctx, uintptr(what), uintptr(unsafe.Pointer(to)))
}
