package libibverbs

import (
	"runtime"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

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
