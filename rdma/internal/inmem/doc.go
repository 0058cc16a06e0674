// Package inmem is an adapter in this process's memory: queue pairs whose ends are both here. What is posted is done
// at once, by the goroutine that posts it, as soon as the other end has a receive. It knows reliable connections with
// SEND, RDMA WRITE and READ, and atomics, and what an adapter answers to the mistakes that package rdma must survive.
//
// rdma.Pipe is made of it.
package inmem
