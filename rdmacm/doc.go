// Package rdmacm connects queue pairs by IP address: it is librdmacm for
// goroutines, without cgo.
//
// # Daily use
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
// A waiting goroutine costs no thread, honours its context, and any number of
// connections share one event channel, which one goroutine reads.
//
// # Below it
//
// An [EventChannel] and its [ID]s are struct rdma_event_channel and struct
// rdma_cm_id, asynchronous: a call starts something, and [EventChannel.Event]
// tells how it ended. Events are copied and acknowledged before they are
// returned, so none can be left unacknowledged, which in C blocks the destruction
// of an ID for ever.
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
// So queue pairs of the direct data path work as any other. [ID.CreateQP] leaves
// the queue pair's states to librdmacm instead, as C programs do.
//
// Everything is safe for concurrent use. Errors are *ibv.OpError around the cause:
// a [*RejectError] with the peer's private data, an [*EventError], a
// [*PrivateDataError], a syscall.Errno, or a sentinel of package ibv.
package rdmacm
