// Package mlx5 is the data path of mlx5 devices in Go: send queues, receive queues, shared receive queues and
// completion queues on the rings that libmlx5 made. It knows memory and no library: whoever has the addresses hands
// them over and from then on is the rings' only user.
//
// Formats and rules are those of rdma-core, providers/mlx5 (mlx5dv.h, wqe.h, qp.c, srq.c, cq.c), and of the Mellanox
// PRM: chapters "Work Queues", "Completion Queues", "Doorbells".
//
// Nothing here takes a lock: the caller serialises the use of each queue. Only the count of completed work requests
// goes from the CQ's side to the queues' side, and that is atomic. What a poster remembers of a work request (its id)
// reaches the poller by way of the device: the barriers of the doorbell and of the CQE order it, which the race
// detector cannot know; hence go:norace on the few functions that touch it.
package mlx5
