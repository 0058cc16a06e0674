// Package rsocket binds librdmacm's rsockets: the socket calls over RDMA, with a protocol that both
// ends must use. The peer may be any program that uses rsockets, in C or through librspreload.
//
// Each method of [Socket] is one C call, which its comment names. Only types are added: addresses are those of
// package netip, failures are [*Error] with the errno. Data moves by the library's own protocol.
//
// # Sockets
//
//   - [New] creates a [Socket]: [Domain], [Type].
//   - [Flags] modify a single call. [How] selects what Shutdown ends.
//   - Options: [Level], [Option].
//   - [Socket.Map] makes an [IOMap], memory that the peer may write to: [Prot].
//   - [ServiceError] is returned in place of a crash of the library; see Limits.
//
// # Many sockets, one goroutine
//
// Sockets do not block, unless SetNonblock(false) was called. A call that would block fails with
// EAGAIN, a connection in progress with EINPROGRESS. A [Poller] waits for many sockets:
//
//	p, err := rsocket.NewPoller()
//	err = p.Add(s, rsocket.PollIn)
//	for {
//		ready, err := p.Wait(ctx)
//		for _, ev := range ready {
//			n, err := ev.Socket.Recv(buf)
//		}
//	}
//
// A waiting Poller holds one thread, in C, for all of its sockets. The kernel's poll and epoll, and hence Go's
// netpoller, do not know descriptors of rsockets.
//
//   - [NewPoller] returns a [Poller], whose Wait returns [Ready] sockets with their [Events].
//   - [Poll] and [Select] are C's functions. An [Item] is a socket to wait for.
//
// # Goroutines
//
// Everything is safe for concurrent use. Close waits for the calls that are in C, which return soon unless the socket
// is blocking. Idle connections cost no goroutine.
//
// # Limits
//
// Before rdma-core v53, librdmacm crashes if a process has more than three connections that were
// accepted or are non-blocking; a [ServiceError] is returned instead. A client whose sockets block
// until they are connected has no such limit.
//
// Datagram sockets need InfiniBand. On RoCE, Connect and SendTo fail with ENOENT, because the library makes addresses
// without the header that RoCE requires (v44.0:librdmacm/rsocket.c:1572; v64 also does). Do not use an address that
// no RDMA device has, such as 127.0.0.1: some versions of the library crash.
//
// A process that has changed its credentials (syscall.Setgroups, Setuid and the like) cannot make or accept
// connections: librdmacm has threads of its own, and the kernel refuses their commands. Calls fail with an
// [*ibv.CredentialsError]. Close the sockets before the change: a thread of librdmacm polls without end for a socket
// that is open and gets an event. Data of connections that are open goes on, except on SoftRoCE and siw.
//
// A datagram has at most 2,040 bytes, or 2,024 between IPv6 sockets, and is lost if it does not fit in a packet.
// There is no ancillary data.
//
// # Environment
//
// Package loader lists the variables. This package adds none.
package rsocket
