// Package rdma moves messages, streams of bytes and datagrams over RDMA.
//
//	l, err := rdma.Listen(ctx, "10.8.0.1:7471", nil)
//	c, err := l.Accept(ctx)
//	m, err := c.Recv(ctx)
//	fmt.Printf("%s", m.Bytes())
//	m.Release()
//	…
//	c, err := rdma.Dial(ctx, "10.8.0.1:7471", nil)
//	err = c.Send(ctx, []byte("hello"))
//	err = c.Close()
//
// Conn carries messages, Stream carries bytes and is a net.Conn. Both are connections by rdma_cm, made
// with an address of the peer's device. Buffers, their registration, queues, completions and flow
// control are an Engine's, which connections share: one for each device, unless Options name another.
// PacketConn is a net.PacketConn. docs/rdma.md has the model and the protocol. Buffers of Engine.Pool are
// sent without a copy.
//
// # Remote memory
//
// With Options.Leases at both ends, a Conn lends memory, for a while and with certain rights:
//
//	b, err := engine.Pool().Get(1 << 20)
//	lease, err := c.Lend(ctx, b, rdma.MayRead|rdma.MayWrite, time.Minute)
//	b, err = lease.Wait(ctx)  // or lease.Revoke(ctx)
//	…
//	region, err := c.Borrow(ctx)
//	err = region.Write(ctx, local, 0)
//	err = region.Return(ctx)
//
// # Goroutines
//
// All methods are safe for concurrent use, and end when their context or deadline does, except for
// those of Message, Buffer and Transfer, which belong to one goroutine. Sending, receiving, and reading
// and writing remote memory do not allocate.
//
// # Lifetime
//
// Close ends a connection in order: the peer gets what was sent, and then io.EOF. An Engine is closed
// after its connections; CloseIdle closes the shared ones that no connection uses.
//
// # Errors
//
// A connection that breaks returns a *PeerError, which matches ErrPeerGone, a peer that breaks the
// protocol a *ProtocolError. After a deadline the error is os.ErrDeadlineExceeded, after Close it
// matches net.ErrClosed. Errors of a Stream are *net.OpError around these.
package rdma
