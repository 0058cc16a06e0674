// Package wire is perftest's exchange, over TCP or rdma_cm: what ib_write_bw and its
// siblings say to each other before, between and after their runs.
//
// Both ends walk through the same list of steps. In each step the client writes
// one message and reads one of the same length; the server reads, then writes.
// A stock peer reads each message with a single read(2), so every message goes
// out in a single write. There is no message type and no length on the wire:
// an end that is at another step than its peer can only guess, which is why all
// reading here has a deadline and all parsing names what it saw.
//
//	1  version          16 bytes, text, padded with zeros
//	2  page size        4 bytes, big endian; the larger one counts
//	3  cache line       4 bytes, big endian; the larger one counts
//	4  MTU              2 bytes, ibv_mtu as a digit; the smaller one counts
//	5  parameters       perftest 6.28 only: 312 or 320 bytes, see negotiate.go
//	   parameters       between two of us: 128 bytes, see params.go
//	6  keys             59 bytes (LID) or 108 (GID), text: see keys.go.
//	                    Also the message of every barrier. Over rdma_cm 56 or 64,
//	                    binary.
//	7  report           8 bytes each: size, messages, peak, average, rate
//
// Over rdma_cm (-R) each message is a send on a queue pair instead.
//
// Two of us also send heartbeats between messages, one byte each, and one byte before
// an end that was interrupted leaves: heartbeat.go.
//
// The order of the steps after 5 depends on the test and belongs to the caller.
//
// A step is in the file named after it: hello.go, params.go, negotiate.go, keys.go and barrier.go,
// report.go, finish.go. A new verb or connection type is a constant in kind.go, and its number in
// negotiate.go.
package wire
