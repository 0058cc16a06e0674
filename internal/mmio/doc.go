// Package mmio is the ordered stores that a device sees: one function for each doorbell, which does all of it (the stores to the ring are
// done, barrier, doorbell record, barrier, register, barrier), so that no caller can get the order wrong.
//
// They are assembly because Go has no barrier against a device: its atomics order processors only, and its atomic store is a locked exchange on
// amd64, which must never touch a device register. The barriers are those of rdma-core, util/udma_barrier.h and util/mmio.h:
//
//	                            amd64            arm64
//	udma_to_device_barrier      (store order)    DMB OSHST
//	udma_from_device_barrier    (load order)     DMB OSHLD
//	mmio_wc_start, mmio_flush   SFENCE           DSB ST
//
// On amd64 ordinary stores are seen in program order, also by a device; SFENCE is for the write-combining register. An assembly function is opaque
// to the compiler, so that stores before the call stay before it.
//
// Pointers are to memory outside the Go heap, or pinned.
package mmio
