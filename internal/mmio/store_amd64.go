package mmio

import "unsafe"

// On amd64 stores are seen in program order, and after earlier loads. The doorbells that are a single store are
// therefore inlined; the compiler keeps that order as well.

// Record publishes the doorbell record of a receive queue or an SRQ, which have no register.
//
// Pairs with mlx5_post_recv (rdma-core v64.0, providers/mlx5/qp.c:3826) and mlx5_post_srq_recv (srq.c:257).
func Record(dbrec unsafe.Pointer, record uint32) { *(*uint32)(dbrec) = record }

// Consumed publishes a CQ's consumer index. Earlier loads of the entries stay before the store: the device may
// overwrite the entries as soon as it sees the index.
//
// Pairs with update_cons_index (rdma-core v64.0, providers/mlx5/cq.c:159).
func Consumed(dbrec unsafe.Pointer, ci uint32) { *(*uint32)(dbrec) = ci }
