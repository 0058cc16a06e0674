// Package mmio provides the ordered stores that a device sees. Each doorbell is one function, so that no caller can get
// the order wrong: a barrier after the stores to the ring, the doorbell record, a barrier, the register, a barrier.
//
// The functions are assembly because Go has no barrier against a device. Its atomics order processors only, and on
// amd64 its atomic store is a locked exchange, which must never touch a device register. The barriers are those of
// rdma-core v64.0, util/udma_barrier.h and util/mmio.h:
//
//	                            amd64            arm64
//	udma_to_device_barrier      (store order)    DMB OSHST
//	udma_from_device_barrier    (load order)     DMB OSHLD
//	mmio_wc_start, mmio_flush   SFENCE           DSB ST
//
// On amd64 processors and devices see ordinary stores and loads in program order. A register is mapped write-combining,
// though, and a store to it may pass earlier ones, hence the SFENCE before it. The SFENCE after it empties the
// combining buffer. Otherwise the doorbell of the next holder of the queue's lock, perhaps on another processor, could
// arrive first. No locked instruction may touch a register: on such memory it is undefined or very slow.
//
// On arm64 the device is in the outer shareable domain, which Go's atomics do not order. The register is Normal-NC
// memory, whose stores may gather; DSB waits until they are done. Storing a consumer index takes a barrier that
// rdma-core does not have: without it, the load of an entry may come after the store that gives the entry to the
// device.
//
// An assembly function is opaque to the compiler, so stores before the call stay before it. Tests check the
// instructions and their order. No test has run against a real device.
//
// All pointers point to memory outside the Go heap, or to pinned memory.
package mmio
