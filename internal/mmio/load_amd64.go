package mmio

import (
	"sync/atomic"
	"unsafe"
)

// LoadCQE loads the last 8 bytes of a CQE, the owner bit among them; later loads of the entry are not older. Loads are
// seen in program order on amd64, so the atomic load, a plain one, need only hold the compiler. rdma-core has an LFENCE
// here, which orders what is ordered.
//
// Pairs with the udma_from_device_barrier after the owner check in rdma-core, providers/mlx5/cq.c.
func LoadCQE(p unsafe.Pointer) uint64 { return atomic.LoadUint64((*uint64)(p)) }

// Loaded is between loads that found owner bits and later loads of the entries: nothing to do here.
func Loaded() {}
