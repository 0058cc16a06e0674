package mmio

import "unsafe"

// RingSend rings the doorbell of a send queue. It stores record to the doorbell record, then ctrl to the register.
// record is the count of 64-byte blocks and ctrl the first 8 bytes of the last WQE, both in the order of memory
// (big-endian).
//
// Pairs with post_send_db (rdma-core v64.0, providers/mlx5/qp.c:754).
//
//go:noescape
func RingSend(dbrec unsafe.Pointer, record uint32, reg unsafe.Pointer, ctrl uint64)

// Record publishes the doorbell record of a receive queue or an SRQ, which have no register.
//
// Pairs with mlx5_post_recv (rdma-core v64.0, providers/mlx5/qp.c:3826) and mlx5_post_srq_recv (srq.c:257).
//
//go:noescape
func Record(dbrec unsafe.Pointer, record uint32)

// Consumed publishes a CQ's consumer index. Earlier loads of the entries stay before the store, because the device may
// overwrite the entries as soon as it sees the index. So do earlier stores: a goroutine that sees an entry of the next
// lap also sees the index that the poller published before it called Consumed.
//
// Pairs with update_cons_index (rdma-core v64.0, providers/mlx5/cq.c:159).
//
//go:noescape
func Consumed(dbrec unsafe.Pointer, ci uint32)
