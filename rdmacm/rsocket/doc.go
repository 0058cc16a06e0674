// Package rsocket binds librdmacm's rsockets: the calls of sockets, over RDMA, in a
// protocol that both ends must speak. The peer may be any program that uses
// rsockets, in C or below librspreload.
//
// Each method of [Socket] is one call of C, which its comment names. Nothing is
// added but types: addresses are netip's, failures are *[Error] with the errno.
//
// # Many sockets, one goroutine
//
// Sockets do not block, unless SetNonblock says so: what cannot be done now is
// EAGAIN, a connection under way EINPROGRESS. A [Poller] waits for many of them:
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
// A waiting Poller holds one thread, in C, however many sockets it has. Descriptors
// of rsockets mean nothing to the kernel's poll and epoll, and so to Go's netpoller.
//
// # Goroutines
//
// Everything is safe for concurrent use. Close waits for the calls that are in C;
// those return soon unless the socket was made blocking. Connections that are open
// but silent cost no goroutine.
//
// # Limits
//
// Before rdma-core v53 librdmacm crashes with more than three connections in a
// process that were accepted or do not block; a [ServiceError] comes instead. A
// client that makes its sockets block until they are connected has no such limit.
//
// A datagram socket must not use an address that no RDMA device carries, such as
// 127.0.0.1: some versions of the library crash.
//
// The library has no datagrams of more than 64 KiB and no ancillary data.
package rsocket
