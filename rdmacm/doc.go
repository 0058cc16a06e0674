// Package rdmacm connects queue pairs by IP address. It is librdmacm for goroutines, without cgo.
//
//	l, err := rdmacm.Listen(ctx, "10.8.0.1:7471", nil)
//	c, err := l.Accept(ctx)
//
//	c, err := rdmacm.Dial(ctx, "10.8.0.1:7471", nil)
//	mr, err := c.PD().AllocMR(4096, ibv.LocalWrite, nil)
//	c.QP().PostSend(…)
//	c.CQ().Wait(ctx, wcs)
//	<-c.Done() // the peer has disconnected, or the device is gone: c.Err()
//
// Data moves through package ibv: a [Conn] is a queue pair that is ready to use.
//
// # Connections
//
//   - [Dial] and [DialAddr] return a [Conn]; [Options] configure it.
//   - [Listen] returns a [Listener]. [Listener.Accept] returns a Conn, [Listener.Next] a [Request] to accept or to
//     reject.
//
// # Identifiers and events
//
// [EventChannel] and [ID] are struct rdma_event_channel and struct rdma_cm_id. They are asynchronous: a call starts
// an operation, and [EventChannel.Event] returns its result.
//
//	ch, err := rdmacm.NewEventChannel()
//	id, err := ch.CreateID(rdmacm.PortSpaceTCP)
//	id.ResolveAddr(netip.AddrPort{}, dst, time.Second) // EventAddrResolved
//	id.ResolveRoute(time.Second)                       // EventRouteResolved
//	dev, err := id.Verbs()                             // the device: create a PD, a CQ
//	qp, err := pd.CreateQP(cq, cq, nil)
//	id.Connect(&rdmacm.ConnParam{QPN: qp.Num()})       // EventConnectResponse
//	id.BringUp(qp, nil)                                // INIT, RTR, RTS
//	id.Establish()                                     // the peer's EventEstablished
//
// Queue pairs of the direct data path are connected in the same way. With [ID.CreateQP], librdmacm changes the queue
// pair's states instead, as in C programs.
//
//   - [NewEventChannel] opens an [EventChannel]; [PortSpace] determines the kind of an [ID].
//   - [Event] and [EventType]: a copy, already acknowledged. In C, an event that is never acknowledged blocks the
//     destruction of its ID forever.
//   - [ConnParam], [UDParam] and [ECE] are parameters of a connection, [Path] a path of InfiniBand.
//   - [JoinFlags]: multicast, by [ID.JoinMulticast].
//   - [Devices] opens all devices.
//
// # Names and addresses
//
//   - [GetAddrInfo] resolves a name, each address to an [AddrInfo]: [Hints], [AddrInfoFlags]. [CreateEP] makes an ID
//     of one.
//   - [Family] is an address family, [IBAddr] an address of InfiniBand.
//
// # Goroutines
//
// Everything is safe for concurrent use. A goroutine that waits holds no thread and returns when its context ends.
// All connections share one event channel, which one goroutine reads.
//
// # Credentials
//
// A program may change its credentials at any time, with syscall.Setgroups, Setgid, Setuid and the like. Linux then
// refuses commands for a file of rdma_cm that was opened before, and each OS thread of a Go program has credentials of
// its own. So an event channel opens the file again, moves its IDs to the new file, and makes all further calls of
// librdmacm on one OS thread. Connections and listeners go on. A call that is in librdmacm at the moment of the change
// may fail.
//
// The new credentials must permit to open /dev/infiniband/rdma_cm. Otherwise calls fail with an
// [*ibv.CredentialsError], and connections end with an [*EventReadError] when their next event arrives. Close them and
// start again.
//
// # Errors
//
// Errors are [*ibv.OpError] around the cause: a syscall.Errno, a sentinel such as [ErrClosed], or one of these:
//
//   - the peer: [RejectError] with [RejectReason] and private data, [SIDRStatus]
//   - events: [EventError], [EventReadError]
//   - arguments: [AddrInfoError], [PrivateDataError], [StateError]
//
// # Environment
//
// Packages ibv and loader list the variables. This package adds none.
package rdmacm
