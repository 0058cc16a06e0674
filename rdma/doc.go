// Package rdma moves messages, byte streams and datagrams over RDMA.
//
//	// server
//	l, err := rdma.Listen(ctx, "10.88.0.1:7471", nil) // an address of an RDMA device
//	c, err := l.Accept(ctx)
//	m, err := c.Recv(ctx)                             // io.EOF after the peer's Close
//	fmt.Printf("%s", m.Bytes())
//	m.Release()
//
//	// client
//	c, err := rdma.Dial(ctx, "10.88.0.1:7471", nil)
//	err = c.Send(ctx, []byte("hello"))
//	err = c.Close()                                   // waits until the peer's adapter has it
//
// Connections are made by rdma_cm, with an address of the peer's device. They share an [Engine], which owns the
// buffers, their registration, the queues and the poller, and limits what each peer may send. There is one Engine
// for each device, unless [Options] name another. docs/rdma.md describes the model,
// docs/rdma-protocol.md the protocol.
//
// The context of a function that listens or dials bounds that call only. Close ends listening, or the connection.
//
// # Messages
//
//   - [Options].Authorize decides about a [ConnRequest] to a listener, of messages or of streams.
//   - [Dial], [Listen] and [Listener] make a [Conn]. [Conn.Send], [Conn.Recv] and [Conn.Flush] move messages.
//     A [Message] has arrived. [PeerInfo] is the peer's description of itself.
//   - [Conn.Batch] returns a [Batch], for several messages at once.
//
// # Calls
//
//   - [NewCaller] makes a [Caller] on a Conn; the peer runs [Serve]. [CallError] is an error of the peer's handler.
//
// # Byte streams
//
//   - [DialStream] makes a [Stream], a net.Conn. [ListenStream] makes a [StreamListener], a net.Listener. Their
//     addresses are *net.TCPAddr.
//   - [Options].Fallback allows TCP where RDMA does not work.
//
// # Datagrams
//
//   - [ListenPacket] and [DialPacket] make a [PacketConn], a net.PacketConn with multicast: [PacketAddr],
//     [PacketStats].
//
// # Sending without a copy
//
//   - [Engine.Pool] is a [Pool]. It returns registered memory, each a [Buffer], which [Conn.SendBuffer] and
//     [Stream.WriteBuffers] send.
//
// # Lending memory
//
// With Options.Leases at both ends, a Conn lends memory to its peer, for a limited time and with limited rights:
//
//	b, err := engine.Pool().Get(1 << 20)
//	lease, err := c.Lend(ctx, b, rdma.MayRead|rdma.MayWrite, time.Minute)
//	b, err = lease.Wait(ctx)  // or lease.Revoke(ctx)
//
//	// the peer
//	region, err := c.Borrow(ctx)
//	err = region.Write(ctx, local, 0)
//	err = region.Return(ctx)
//
// The names are:
//
//   - The owner: [Conn.Lend] returns a [Lease] with [Access] rights. [LeaseOptions] permit it. A peer asks
//     with a [LeaseRequest]. [LeaseKeys] selects how the device enforces the bounds.
//   - The user: [Conn.Borrow] and [Conn.Request] return a [Region]. [Region.Transfer] returns a [Transfer], a list
//     of reads and writes with one completion.
//   - Errors: [RefusedError] and [RefuseReason], [RightError], [ErrRevoked].
//
// # Engines
//
//   - [NewEngine] makes an [Engine] with [EngineOptions]: block size, memory, pollers. [Stats] are its counters.
//     EngineOptions.PD is a protection domain that the program shares with it.
//   - [CloseIdle] closes the shared engines that no connection uses.
//   - [Pipe] connects two Conns in this process, without a device.
//
// # Goroutines
//
// All methods are safe for concurrent use, except those of [Message], [Buffer], [Batch] and [Transfer], which belong
// to one goroutine. A method that waits returns when its context or deadline ends. Sending, receiving, and reading and
// writing remote memory do not allocate.
//
// # Lifetime
//
// Close ends a connection in order: the peer receives what was sent, and then io.EOF. Close waits until the peer's
// adapter has everything, so a program may end right after it. The peer's program need not have read it. A peer that
// does not read can stop what is sent. Options.Linger bounds the wait, and an [*UndeliveredError] says what was not
// delivered. CloseNow does not wait. Close an Engine after its connections.
//
// # Errors
//
// If a listener refuses a connection, Dial returns a [*RejectError] with a [RejectReason], if it gave one. A broken
// connection returns a [*PeerError], which matches [ErrPeerGone] and says what is known of the data that was sent. If
// this side's device has failed, it is a [*DeviceError]. A peer that violates the protocol causes a [*ProtocolError], a
// peer without a common protocol version a [*VersionError]. After a deadline the error is os.ErrDeadlineExceeded; after
// Close it matches net.ErrClosed. Errors of a Stream are *net.OpError around these.
//
// # Environment
//
// Package ibv lists the variables. PUREVERBS_DATAPATH=ops selects the engine of CQs here too. With PUREVERBS_LEAKS=1,
// connections, streams, listeners and messages that the garbage collector finds unclosed are reported with the place
// that made them, and the panic of a second Release names the place of the first one. [ibv.Unclosed] lists everything
// that is open, Engines and Leases too.
package rdma
