// Package rdmacm connects queue pairs by IP address. It is librdmacm for goroutines, without cgo.
//
// # Connections
//
// [Dial] and [Listen] give connections whose queue pair is ready to use:
//
//	l, err := rdmacm.Listen(ctx, "10.8.0.1:7471", nil)
//	c, err := l.Accept(ctx)
//	…
//	c, err := rdmacm.Dial(ctx, "10.8.0.1:7471", nil)
//	mr, err := c.PD().AllocMR(4096, ibv.LocalWrite, nil)
//	c.QP().PostSend(…)
//	c.CQ().Wait(ctx, wcs)
//	<-c.Done() // the peer has disconnected, or the device is gone: c.Err()
//
// A waiting goroutine costs no thread and honours its context. All connections share one event
// channel, which one goroutine reads.
//
// # Identifiers and events
//
// [EventChannel] and [ID] are struct rdma_event_channel and struct rdma_cm_id. They are
// asynchronous: a call starts an operation, and [EventChannel.Event] returns its result. Events are
// copied and acknowledged before they are returned. In C, an event that is never acknowledged
// blocks the destruction of its ID forever.
//
//	ch, err := rdmacm.NewEventChannel()
//	id, err := ch.CreateID(rdmacm.PortSpaceTCP)
//	id.ResolveAddr(netip.AddrPort{}, dst, time.Second) // EventAddrResolved
//	id.ResolveRoute(time.Second)                       // EventRouteResolved
//	ctx, err := id.Verbs()                             // the device: PD, CQ
//	qp, err := pd.CreateQP(cq, cq, nil)
//	id.Connect(&rdmacm.ConnParam{QPN: qp.Num()})       // EventConnectResponse
//	id.BringUp(qp, nil)                                // INIT, RTR, RTS
//	id.Establish()                                     // the peer's EventEstablished
//
// Queue pairs of the direct data path are connected in the same way. With [ID.CreateQP], librdmacm
// changes the queue pair's states instead, as in C programs.
//
// Everything is safe for concurrent use. Errors are *ibv.OpError around the cause:
// a [*RejectError] with the peer's private data, an [*EventError], a
// [*PrivateDataError], a syscall.Errno, or a sentinel of package ibv.
package rdmacm
