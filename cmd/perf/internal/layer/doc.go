// Package layer measures package rdma, messages and streams, between two ends; if requested, in alternating rounds with
// raw verbs and TCP.
//
//	options.go  what one end is asked for, and what does not go together
//	control.go  the exchange: lines of JSON over TCP
//	carrier.go  what carries the bytes: a stream, messages, TCP
//	loop.go     the loops of both ends, over any carrier
//	raw.go      rdmaperf send, as a carrier of its own
//	copying.go  copying in memory, for comparison
//	client.go   the client: decides what runs
//	server.go   the server: does what the client asks for
//	usage.go    what a run has cost this process
//	result.go   what was measured, and medians of it
package layer
