package mmio

import "unsafe"

// Record publishes a doorbell record that no register goes with: receive queues, SRQs.
//
// Pairs with mlx5_post_recv in rdma-core, providers/mlx5/qp.c, and mlx5_post_srq_recv in srq.c.
//
//go:noescape
func Record(dbrec unsafe.Pointer, record uint32)

// Consumed publishes a CQ's consumer index. The device may overwrite the entries before it as soon as it sees the
// store, so that loads of them come first.
//
// Pairs with update_cons_index in rdma-core, providers/mlx5/cq.c.
//
//go:noescape
func Consumed(dbrec unsafe.Pointer, ci uint32)
