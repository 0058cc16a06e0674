package ops

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// Table holds the provider's functions behind the inline verbs of <infiniband/verbs.h>. They are stored in struct
// ibv_context itself, at offsets that have never changed. A function that a provider lacks is 0.
type Table struct {
	PollCQ      uintptr // int (*)(struct ibv_cq *, int, struct ibv_wc *)
	ReqNotifyCQ uintptr // int (*)(struct ibv_cq *, int)
	PostSRQRecv uintptr // int (*)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **)
	PostSend    uintptr // int (*)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **)
	PostRecv    uintptr // int (*)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **)
}

// Lookup reads the table of the ibv_context at ctx.
func Lookup(ctx uintptr) Table {
	c := cmem.At[abi.Context](ctx)
	return Table{
		PollCQ:      c.Ops[abi.OpPollCQ],
		ReqNotifyCQ: c.Ops[abi.OpReqNotifyCQ],
		PostSRQRecv: c.Ops[abi.OpPostSRQRecv],
		PostSend:    c.Ops[abi.OpPostSend],
		PostRecv:    c.Ops[abi.OpPostRecv],
	}
}

// WQPostRecv returns the function behind ibv_post_wq_recv of a struct ibv_wq.
func WQPostRecv(wq uintptr) uintptr { return cmem.At[abi.WQ](wq).PostRecv }

// KernelHandle returns the kernel's number of a struct ibv_qp.
func KernelHandle(qp uintptr) uint32 { return cmem.At[abi.QP](qp).Handle }

// errno returns the errno in the result of a post function. Some providers return it negated.
func errno(ret int32) int {
	if ret < 0 {
		return int(-ret)
	}
	return int(ret)
}
