// Package grpc runs gRPC's interoperability tests over streams of package rdma. It is a module of
// its own, so that the library does not depend on gRPC.
package grpc
