// Package rdma moves messages and streams of bytes over RDMA.
package rdma
