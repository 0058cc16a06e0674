package mmio

import "unsafe"

// LoadCQE loads the last 8 bytes of a CQE, the owner bit among them; later loads of the entry are not older.
//
// Pairs with the udma_from_device_barrier after the owner check in rdma-core, providers/mlx5/cq.c.
//
//go:noescape
func LoadCQE(p unsafe.Pointer) uint64

// Loaded is between loads that found owner bits and later loads of the entries: it is one barrier for several of them.
//
// Pairs with the udma_from_device_barrier after the owner check in rdma-core, providers/mlx5/cq.c.
func Loaded()
