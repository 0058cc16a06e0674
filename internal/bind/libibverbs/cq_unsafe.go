package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/pollfd"
)

// ChannelFD returns a duplicate of the descriptor of a struct ibv_comp_channel.
func (l Lib) ChannelFD(ch uintptr) (int, error) {
	return pollfd.Dup(int(cmem.At[abi.CompChannel](ch).FD))
}

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
