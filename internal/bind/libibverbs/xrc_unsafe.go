package libibverbs

import (
	"runtime"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// struct ibv_xrcd *(*open_xrcd)(struct ibv_context *, struct ibv_xrcd_init_attr *);
// An op of verbs_context, not an export, as is all of this file.
func (l Lib) OpenXRCD(ctx uintptr, attr *abi.XRCDInitAttr) (uintptr, error) {
	return opPtr(ctx, abi.DistOpenXRCD, ctx, uintptr(unsafe.Pointer(attr)))
}

// int (*close_xrcd)(struct ibv_xrcd *);
func (l Lib) CloseXRCD(ctx, xrcd uintptr) error {
	return l.Destroyed(ctx, opErr(ctx, abi.DistCloseXRCD, xrcd))
}

// struct ibv_srq *(*create_srq_ex)(struct ibv_context *, struct ibv_srq_init_attr_ex *);
func (l Lib) CreateSRQEx(ctx uintptr, attr *abi.SRQInitAttrEx) (uintptr, error) {
	return opPtr(ctx, abi.DistCreateSRQEx, ctx, uintptr(unsafe.Pointer(attr)))
}

// int (*get_srq_num)(struct ibv_srq *, uint32_t *srq_num);
func (l Lib) GetSRQNum(ctx, srq uintptr) (uint32, error) {
	num := new(uint32)
	err := opErr(ctx, abi.DistGetSRQNum, srq, uintptr(unsafe.Pointer(num)))
	return *num, err
}

// struct ibv_qp *(*open_qp)(struct ibv_context *, struct ibv_qp_open_attr *);
func (l Lib) OpenQP(ctx uintptr, attr *abi.QPOpenAttr) (uintptr, error) {
	return opPtr(ctx, abi.DistOpenQP, ctx, uintptr(unsafe.Pointer(attr)))
}

// int ibv_cmd_destroy_qp(struct ibv_qp *qp);
// Exported for providers. It ends the kernel's QP and leaves the provider's memory alone.
func (l Lib) CmdDestroyQP(qp uintptr) error { return l.destroy("ibv_cmd_destroy_qp", qp) }

// int (*post_srq_ops)(struct ibv_srq *, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op); absent before v16.
// PostSRQOps links ops and gives each its list. done is how many were accepted.
func (l Lib) PostSRQOps(ctx, srq uintptr, ops []abi.OpsWR, lists [][]abi.SGE) (done int, err error) {
	if len(ops) == 0 {
		return 0, nil
	}
	first := uintptr(unsafe.Pointer(unsafe.SliceData(ops)))
	size := unsafe.Sizeof(ops[0])
	for i := range ops {
		if i > 0 {
			ops[i-1].Next = first + uintptr(i)*size
		}
		ops[i].TM.SGList = cmem.Heap(unsafe.Pointer(unsafe.SliceData(lists[i])))
		ops[i].TM.NumSGE = int32(len(lists[i]))
	}
	bad := new(uintptr)
	err = opErr(ctx, abi.DistPostSRQOps, srq, uintptr(unsafe.Pointer(unsafe.SliceData(ops))),
		uintptr(unsafe.Pointer(bad)))
	runtime.KeepAlive(lists)
	if err == nil {
		return len(ops), nil
	}
	if *bad >= first {
		done = int(min((*bad-first)/size, uintptr(len(ops)-1)))
	}
	return done, err
}
