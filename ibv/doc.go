// Package ibv is RDMA verbs for Go: what <infiniband/verbs.h> is for C, without
// cgo. libibverbs is loaded when the program first needs it, so a binary built
// with CGO_ENABLED=0 runs with whatever version of rdma-core, MLNX_OFED or DOCA
// the host has, and starts where there is none.
//
//	dev, err := ibv.Open("")                             // the first device with an active port
//	pd, err := dev.AllocPD()
//	cq, err := dev.CreateCQ(256, nil)
//	qp, err := pd.CreateQP(cq, cq, nil)                  // RC
//	mr, err := pd.AllocMR(1<<20, ibv.LocalWrite|ibv.RemoteWrite, nil)
//
//	me, err := qp.Endpoint(1, ibv.BestGID)               // what the peer has to know
//	err = qp.Connect(exchange(me), nil)                  // INIT, RTR, RTS
//
//	b := qp.Batch()
//	b.Write(1, ibv.Signaled, mr.SGE(0, 4096), remote.At(0))
//	err = b.Post()                                       // one doorbell
//	n, err := cq.Wait(ctx, wcs)                          // spins a little, then sleeps
//
// # Control and data
//
// Making, changing and asking goes to libibverbs. Posting and polling goes
// through the provider's own functions, as C's inline verbs do, one call for a
// batch, about 5 ns more than from C; on mlx5 devices it writes the device's rings
// itself and calls nothing. Neither allocates. CQ.DataPath tells which engine a
// CQ has. A provider's function holds its processor until it
// returns, which is microseconds; posting to the software devices rxe and siw
// enters the kernel and may take longer.
//
// # Goroutines
//
// All methods are safe for concurrent use, Close included. Waiting (CQ.Wait,
// Device.AsyncEvent) sleeps on Go's netpoller and holds no thread.
//
// Posting and polling take one lock each, for what is nobody else's most of the
// time. CQs, QPs and SRQs made with SingleThreaded, and QPs on a ThreadDomain, take
// none: one goroutine at a time uses them, Close included, and they pass from one
// to another as data does, over a channel or under a mutex. Closing a QP looks
// through its CQs, so that it counts as use of those. The race detector sees who
// breaks the rule.
//
// # Lifetime
//
// Every object has an explicit Close, which may be called twice. Closing a
// parent before its children is refused with a *BusyError that counts them;
// using a closed object is ErrClosed. Close waits for calls that use the object,
// and leaves it open if the library cannot destroy it. Errors name an object by its
// device and a number, as in "cq of mlx5_0/3". Nothing is destroyed by the garbage
// collector, because the device may still write to the memory.
//
// # Other C libraries
//
// Control of a Device, PD, CQ, SRQ, QP or MR lends the C object, struct ibv_qp * and its
// like, to another library, and keeps it open meanwhile.
//
// # Errors
//
// A failed call is an *OpError. Inside is the errno, or one of the typed errors
// of this package, which name the value, the limit and the way out. Failed work
// requests are completions, not errors: WC.Err returns a *WCError, whose "%+v" says what to look at, and
// errors.Is(err, ibv.WCRetryExcErr.Err()) asks for one kind. WCStatus is no error.
//
// # Environment
//
//	PUREVERBS_LIBRARY_PATH   where to look for the libraries; see package loader
//	PUREVERBS_DATAPATH=ops   keeps CQs from any other engine than ops
//	PUREVERBS_CCALL=fallback keeps C calls off the g0 stack, for finding faults
//	PUREVERBS_LEAKS=1        reports objects that were never closed
package ibv
