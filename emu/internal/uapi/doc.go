//go:generate go run ./gen

// Package uapi reads and writes the requests of the kernel's uverbs interface: the RDMA_VERBS_IOCTL attributes, the
// older write() commands, and the mlx5 driver's part of both. It keeps no state and knows no device.
//
// The structs mirror rdma/ib_user_verbs.h, ib_user_ioctl_verbs.h and mlx5-abi.h, flexible arrays left out; numbers are
// in the host's byte order, as there.
package uapi
