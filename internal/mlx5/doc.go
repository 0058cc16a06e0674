// Package mlx5 is the data path of mlx5 devices in Go: send queues, receive queues, shared receive queues and
// completion queues on the rings that libmlx5 allocated. It works on memory and knows no library. The caller passes the
// addresses of the rings; from then on only this package may use them.
//
// Formats and rules follow rdma-core, providers/mlx5 (mlx5dv.h, wqe.h, qp.c, srq.c, cq.c), and the Mellanox PRM,
// chapters "Work Queues", "Completion Queues" and "Doorbells".
//
// The caller serialises the use of each queue; only shared receive queues have a lock of their own. The poller passes
// the count of completed work requests to the poster, atomically. The ID of a work request goes from the poster to the
// poller by way of the device: the barriers of the doorbell and of the CQE order the two. The race detector cannot know
// this, so the few functions that access the ID are marked go:norace.
package mlx5
