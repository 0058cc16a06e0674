// Package mlx5dv is libmlx5's mlx5dv API for objects of package ibv: device queries, CQs and QPs
// with options of mlx5 alone, device memory, the device clock, direct access to rings, and commands
// to the device (DevX).
//
// It is not needed for speed: on these devices ibv posts and polls without libmlx5.
//
// # Rings
//
// A ring has one writer for the life of its CQ. Create CQs, and SRQs used with them, with the
// option DataPath: ibv.DataPathRaw, and QPs on these CQs. ViewQP, ViewCQ and ViewSRQ then return
// the rings, doorbell records and registers. Neither ibv nor libmlx5 touches these; ibv still
// connects, modifies and closes the QPs. Objects of other data paths are rejected.
//
//	cq, err := ctx.CreateCQ(64, &ibv.CQOptions{DataPath: ibv.DataPathRaw})
//	qp, err := pd.CreateQP(cq, cq, nil)
//	…                                                     // connect, as ever
//	q, err := mlx5dv.ViewQP(qp)
//	c, err := mlx5dv.ViewCQ(cq)
//	q.Control(0, mlx5dv.OpSend, mlx5dv.WQESignaled, 2, 0) // two segments of 16 bytes
//	seg, sge := q.SQ.Entry(0)[16:], mr.SGE(0, 64)
//	binary.BigEndian.PutUint32(seg, sge.Length)
//	binary.BigEndian.PutUint32(seg[4:], sge.LKey)
//	binary.BigEndian.PutUint64(seg[8:], sge.Addr)
//	q.RingSend(1, 0)                                      // one block; the last WQE begins at block 0
//	for c.Entry(0) == nil {
//	}
//	c.Consumed(1)
//
// The library owns the memory, which is valid until the object is closed; an access after that ends
// the process. Build WQEs with plain stores. RingSend, RingRecv and the like order them before the
// doorbell. Never use sync/atomic on a register: on amd64 that is a locked instruction, which
// device memory does not support.
//
// # Steering
//
// CreateFlowMatcher makes rules that compare any field of a frame that the device can parse, and that may
// change frames. Match has the fields, in the device's layout. The rules stand in the kernel's tables, with those of
// ibv's CreateFlow. CreateDRDomain is libmlx5's own steering, by tables that lead to each other.
//
// # Goroutines, lifetime, errors
//
// Everything is safe for concurrent use, but views of rings, whose comments say so. Objects belong to the Device, PD or
// object that they are made of, which cannot be closed before them. Errors are *ibv.OpError, as those of package ibv;
// what the device refused by itself is a *CommandError.
//
// # Devices
//
// Functions return ibv.ErrNotSupported for devices of other providers, and if the library is too
// old. libmlx5 must be from rdma-core v22 or later; functions that need a later release say so. DC
// QPs on the ops engine need v24, streams of a DCI v37.
package mlx5dv
