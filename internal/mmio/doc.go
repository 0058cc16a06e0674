// Package mmio is the ordered stores that a device sees: one function for each doorbell, which does all of it (the
// stores to the ring are done, barrier, doorbell record, barrier, register, barrier), so that no caller can get the
// order wrong.
//
// They are assembly because Go has no barrier against a device: its atomics order processors only, and its atomic store
// is a locked exchange on amd64, which must never touch a device register. The barriers are those of rdma-core,
// util/udma_barrier.h and util/mmio.h:
//
//	                            amd64            arm64
//	udma_to_device_barrier      (store order)    DMB OSHST
//	udma_from_device_barrier    (load order)     DMB OSHLD
//	mmio_wc_start, mmio_flush   SFENCE           DSB ST
//
// On amd64 ordinary stores and loads are seen in program order, also by a device. A register is mapped write-combining,
// though, and such a store may pass earlier ones: hence the SFENCE before it. The one after it empties the combining
// buffer, so that the doorbell of the next holder of the queue's lock, perhaps on another processor, does not arrive
// first. No instruction with a lock may touch a register: on this memory it is undefined or very slow.
//
// On arm64 the device is in the outer shareable domain, which Go's atomics do not order. The register is Normal-NC
// memory there, whose stores may gather; DSB waits until they are done. A consumer index needs a barrier that rdma-core
// does not have: without it the load of an entry may come after the store that gives the entry to the device.
//
// An assembly function is opaque to the compiler, so that stores before the call stay before it. Order on a device's
// own silicon is reasoned here and its instructions are tested; no device took part.
//
// Pointers are to memory outside the Go heap, or pinned.
package mmio
