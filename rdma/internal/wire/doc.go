// Package wire has the formats of package rdma's protocol: the hello and the refusal in rdma_cm's private data, the
// headers of frames, the records of shared frames, and the frames about leases. It knows no connection. What it checks
// needs no state: the lengths, and which flags and values a frame may have.
//
// docs/rdma-protocol.md has the protocol. All numbers are little endian. The frame numbers and limits are uint32 and
// wrap around: compare them with [Before].
package wire
