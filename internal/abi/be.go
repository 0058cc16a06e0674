package abi

import "math/bits"

// The hosts that libibverbs is called on, amd64 and arm64, are little-endian.

// Be16 is a __be16: 16 bits in network order.
type Be16 uint16

// Be32 is a __be32: 32 bits in network order.
type Be32 uint32

// Be64 is a __be64: 64 bits in network order.
type Be64 uint64

// Get returns the value in host order.
func (b Be16) Get() uint16 { return bits.ReverseBytes16(uint16(b)) }

// Get returns the value in host order.
func (b Be32) Get() uint32 { return bits.ReverseBytes32(uint32(b)) }

// Get returns the value in host order.
func (b Be64) Get() uint64 { return bits.ReverseBytes64(uint64(b)) }

// Set stores v, given in host order.
func (b *Be16) Set(v uint16) { *b = Be16(bits.ReverseBytes16(v)) }

// Set stores v, given in host order.
func (b *Be32) Set(v uint32) { *b = Be32(bits.ReverseBytes32(v)) }

// Set stores v, given in host order.
func (b *Be64) Set(v uint64) { *b = Be64(bits.ReverseBytes64(v)) }

// GID is union ibv_gid (infiniband/verbs.h, rdma-core v65), in network order. The union is aligned
// to 8 bytes; structs that contain one declare that alignment.
type GID [16]byte
