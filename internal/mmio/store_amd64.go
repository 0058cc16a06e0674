package mmio

import "unsafe"

// Stores are seen in program order on amd64, and after the loads before them. So the doorbells that are one store are
// inlined: the compiler keeps the order, too.

// Record publishes a doorbell record that no register goes with: receive queues, SRQs.
//
// Pairs with mlx5_post_recv in rdma-core, providers/mlx5/qp.c, and mlx5_post_srq_recv in srq.c.
func Record(dbrec unsafe.Pointer, record uint32) { *(*uint32)(dbrec) = record }

// Consumed publishes a CQ's consumer index. The device may overwrite the entries before it as soon as it sees the
// store, so that loads of them come first.
//
// Pairs with update_cons_index in rdma-core, providers/mlx5/cq.c.
func Consumed(dbrec unsafe.Pointer, ci uint32) { *(*uint32)(dbrec) = ci }
