package mmio

import "unsafe"

// LoadCQE returns the last 8 bytes of a CQE, which contain the owner bit. Later loads of the entry stay behind it.
//
// Pairs with the udma_from_device_barrier after the owner check in rdma-core, providers/mlx5/cq.c.
//
//go:noescape
func LoadCQE(p unsafe.Pointer) uint64

// Loaded orders loads of owner bits before later loads of the entries: one barrier for any number of entries.
//
// Pairs with the udma_from_device_barrier after the owner check in rdma-core, providers/mlx5/cq.c.
func Loaded()
