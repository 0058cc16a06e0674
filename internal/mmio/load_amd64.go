package mmio

import (
	"sync/atomic"
	"unsafe"
)

// LoadCQE returns the last 8 bytes of a CQE, which contain the owner bit. Later loads of the entry stay behind it. On
// amd64 loads are seen in program order, so the atomic load, which is a plain one, only has to stop the compiler.
// rdma-core's LFENCE here orders what is already ordered.
//
// Pairs with the udma_from_device_barrier after the owner check (rdma-core v64.0, providers/mlx5/cq.c:555).
func LoadCQE(p unsafe.Pointer) uint64 { return atomic.LoadUint64((*uint64)(p)) }

// Loaded orders loads of owner bits before later loads of the entries. On amd64 it does nothing.
func Loaded() {}
