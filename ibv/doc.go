// Package ibv is RDMA verbs for Go: the counterpart of <infiniband/verbs.h>,
// without cgo. libibverbs is loaded when the program first needs it, so a
// binary built with CGO_ENABLED=0 runs with whatever version of rdma-core,
// MLNX_OFED or DOCA the host has, and starts on a host that has none.
//
//	dev, err := ibv.Open("")                             // the first device with an active port
//	pd, err := dev.AllocPD()
//	cq, err := dev.CreateCQ(256, nil)
//	qp, err := pd.CreateQP(cq, cq, nil)                  // RC
//	mr, err := pd.AllocMR(1<<20, ibv.LocalWrite|ibv.RemoteWrite, nil)
//
//	me, err := qp.Endpoint(1, ibv.BestGID)               // what the peer needs to know
//	err = qp.Connect(exchange(me), nil)                  // INIT, RTR, RTS
//
//	b := qp.Batch()
//	b.Write(1, ibv.Signaled, mr.SGE(0, 4096), remote.At(0))
//	err = b.Post()                                       // one doorbell
//	n, err := cq.Wait(ctx, wcs)                          // spins a little, then sleeps
//
// # Control and data
//
// Control calls, which create, modify and query objects, go to libibverbs.
// Posting and polling call the provider's functions directly, as C's inline
// verbs do: one call for a batch, about 5 ns more than from C. On mlx5 devices
// this package drives the device's rings itself and calls no C at all. Neither
// path allocates. CQ.DataPath returns the engine of a CQ. A provider's function
// holds its processor until it returns, usually microseconds; posting to the
// software devices rxe and siw enters the kernel and may take longer.
//
// # Goroutines
//
// All methods are safe for concurrent use, including Close. Waiting (CQ.Wait,
// Device.AsyncEvent) sleeps on Go's netpoller and holds no thread.
//
// Posting and polling each take one lock, which is normally uncontended. CQs,
// QPs and SRQs created with SingleThreaded, and QPs on a ThreadDomain, take
// none: only one goroutine at a time may use them, including Close. They may
// move to another goroutine the way data does, over a channel or under a mutex.
// Closing a QP searches its CQs, so it counts as use of them. The race detector
// finds violations.
//
// # Lifetime
//
// Every object has an explicit Close, which may be called twice. Closing a
// parent before its children fails with a *BusyError that counts them; using a
// closed object fails with ErrClosed. Close waits for calls that use the
// object, and leaves it open if the library cannot destroy it. Errors name an
// object by its device and a number, as in "cq of mlx5_0/3". The garbage
// collector never destroys an object, because the device may still write to the
// memory.
//
// # Other C libraries
//
// The Control methods of Device, PD, CQ, SRQ, QP and MR lend the C object, such
// as a struct ibv_qp *, to another library, and keep it open meanwhile.
//
// # Errors
//
// A failed call returns an *OpError. It wraps the errno, or one of the typed
// errors of this package, which name the value, the limit and the way out.
// Failed work requests are completions, not errors: WC.Err returns a *WCError,
// whose "%+v" also prints what to check, and errors.Is(err,
// ibv.WCRetryExcErr.Err()) tests for one status. A WCStatus is not an error
// itself. QP.Explain adds what was posted before and after it.
//
// # Environment
//
//	PUREVERBS_LIBRARY_PATH   where to look for the libraries; see package loader
//	PUREVERBS_DATAPATH=ops   gives CQs the engine ops by default
//	PUREVERBS_CCALL=fallback keeps C calls off the g0 stack, to isolate faults
//	PUREVERBS_LEAKS=1        reports objects that were never closed
package ibv
