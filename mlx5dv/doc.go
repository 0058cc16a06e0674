// Package mlx5dv does with objects of package ibv what only mlx5 devices can, by
// libmlx5: it queries them, creates CQs and QPs with options of their own, reads their
// clock, and hands out their rings to those who write work requests themselves.
//
// Nobody needs it for speed: ibv posts and polls without libmlx5 on such devices.
//
// # Rings
//
// A ring has one writer, for the life of its CQ. Make CQs, and the SRQs that go with
// them, with the option DataPath: ibv.DataPathRaw, and QPs on those CQs; then ViewQP,
// ViewCQ and ViewSRQ tell where rings, doorbell records and registers lie. ibv and
// libmlx5 do not touch them any more; ibv still connects, changes and closes the QPs.
// Objects of the other data paths are refused.
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
// The memory is the library's and lasts until Close of the object; using it longer
// ends the process. Plain stores build WQEs; what orders them before the doorbell are
// RingSend, RingRecv and their like, and no sync/atomic on a register: on amd64 that
// is a locked instruction, which device memory does not take.
//
// # Devices
//
// Functions refuse devices of other providers with ibv.ErrNotSupported, as they do
// where the library is too old, each from the release that its documentation names.
// libmlx5 must be of rdma-core v22 or later. DC QPs are not offered yet.
package mlx5dv
