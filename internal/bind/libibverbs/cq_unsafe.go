package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);
func (l Lib) CreateCompChannel(ctx uintptr) (uintptr, error) {
	return l.lib.Ptr("ibv_create_comp_channel", ctx)
}

// int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);
func (l Lib) DestroyCompChannel(ch uintptr) error { return l.destroy("ibv_destroy_comp_channel", ch) }

// ChannelFD returns the descriptor of a struct ibv_comp_channel.
func (l Lib) ChannelFD(ch uintptr) int { return int(cmem.At[abi.CompChannel](ch).FD) }

// struct ibv_cq *ibv_create_cq(struct ibv_context *, int cqe, void *cq_context, struct ibv_comp_channel *,
// int comp_vector);
func (l Lib) CreateCQ(ctx uintptr, cqe int, cookie, channel uintptr, vector int) (uintptr, error) {
	return l.lib.Ptr("ibv_create_cq", ctx, uintptr(cqe), cookie, channel, uintptr(vector))
}

// struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
// An op of verbs_context.
func (l Lib) CreateCQEx(ctx uintptr, attr *abi.CQInitAttrEx) (uintptr, error) {
	return opPtr(ctx, abi.DistCreateCQEx, ctx, uintptr(unsafe.Pointer(attr)))
}

// int ibv_resize_cq(struct ibv_cq *cq, int cqe);
func (l Lib) ResizeCQ(cq uintptr, cqe int) error { return l.lib.Err("ibv_resize_cq", cq, uintptr(cqe)) }

// int (*modify_cq)(struct ibv_cq *, struct ibv_modify_cq_attr *); an op of verbs_context, absent before v16.
func (l Lib) ModifyCQ(ctx, cq uintptr, attr *abi.ModifyCQAttr) error {
	return opErr(ctx, abi.DistModifyCQ, cq, uintptr(unsafe.Pointer(attr)))
}

// int ibv_destroy_cq(struct ibv_cq *cq);
func (l Lib) DestroyCQ(cq uintptr) error { return l.destroy("ibv_destroy_cq", cq) }

// CQCapacity returns the entries of a struct ibv_cq.
func (l Lib) CQCapacity(cq uintptr) int { return int(cmem.At[abi.CQ](cq).CQE) }

// int ibv_get_cq_event(struct ibv_comp_channel *, struct ibv_cq **cq, void **cq_context);
func (l Lib) GetCQEvent(ch uintptr, e *control.CQEvent) error {
	a := e.Args[:3]
	a[0], a[1], a[2] = ch, uintptr(unsafe.Pointer(&e.CQ)), uintptr(unsafe.Pointer(&e.Cookie))
	return l.lib.Minus1("ibv_get_cq_event", a...)
}

// void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);
func (l Lib) AckCQEvents(cq uintptr, n int, e *control.CQEvent) {
	a := e.Args[3:]
	a[0], a[1] = cq, uintptr(n)
	_ = l.lib.Void("ibv_ack_cq_events", a...)
}
