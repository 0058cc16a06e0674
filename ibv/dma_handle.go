package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// TPHint is how a PCIe device will use what it reads and writes: the processing hint of TPH, the
// PCI Express specification's TLP processing hints.
//
// Experimental: no device has run this. See docs/stability.md.
type TPHint uint8

const (
	TPHBidirectional  TPHint = 0 // device and processor both read and write, often
	TPHRequester      TPHint = 1 // the device does
	TPHTarget         TPHint = 2 // the processor reads soon what the device writes
	TPHTargetPriority TPHint = 3 // the same, at once
)

// TPHMemory is the kind of memory that a TPHSteering is about.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: enum ibv_tph_mem_type.
type TPHMemory uint8

const (
	TPHVolatile   TPHMemory = 0 // C: IBV_TPH_MEM_TYPE_VM.
	TPHPersistent TPHMemory = 1 // C: IBV_TPH_MEM_TYPE_PM.
)

// TPHSteering names the processor whose cache is to receive what the device writes.
//
// Experimental: no device has run this. See docs/stability.md.
type TPHSteering struct {
	CPU    int // as the kernel numbers them
	Memory TPHMemory
}

// DMAHandle is advice to a device on how to access the memory of MRs, given by MROptions.DMA.
//
// It belongs to its Device. Close fails while an MR uses it.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct ibv_dmah.
type DMAHandle struct {
	object
}

// AllocDMAHandle makes a DMA handle with a hint; steer may be nil.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: ibv_alloc_dmah(3).
func (d *Device) AllocDMAHandle(hint TPHint, steer *TPHSteering) (*DMAHandle, error) {
	const op = "alloc dma handle"
	fail := func(err error) (*DMAHandle, error) { return nil, &OpError{Op: op, Object: d.Name(), Err: err} }
	attr := &abi.DMAHInitAttr{CompMask: abi.IBV_DMAH_INIT_ATTR_MASK_PH, PH: uint8(hint)}
	if hint > TPHTargetPriority {
		return fail(&ArgError{Arg: "hint", Got: fmt.Sprintf("TPHint(%d)", uint8(hint)), Want: "0 to 3"})
	}
	if steer != nil {
		if steer.Memory > TPHPersistent {
			return fail(&ArgError{Arg: "Memory", Got: fmt.Sprintf("TPHMemory(%d)", uint8(steer.Memory)),
				Want: "TPHVolatile or TPHPersistent"})
		}
		if err := fitInt(d.Name(), limit{"CPU", steer.CPU, -1}); err != nil {
			return fail(err)
		}
		attr.CompMask |= abi.IBV_DMAH_INIT_ATTR_MASK_CPU_ID | abi.IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE
		attr.CPUID, attr.TPHMemType = uint32(steer.CPU), uint8(steer.Memory)
	}
	h := &DMAHandle{object: object{dev: d}}
	return create(op, d.Name(), "dma handle", h, &h.node, func() (err error) {
		h.handle, err = d.v.AllocDMAH(d.handle, attr)
		return d.explainNewer(err, "a DMA handle", "Linux 6.17 and a device with TPH", "register without one")
	}, &d.node)
}

// Device returns the device that the handle belongs to.
func (h *DMAHandle) Device() *Device { return h.dev }

// Close deallocates the handle.
//
// C: ibv_dealloc_dmah(3).
func (h *DMAHandle) Close() error {
	return h.node.close(func() error { return h.dev.v.DeallocDMAH(h.handle) })
}

// explainNewer returns an error with the requirements of a feature of rdma-core v59, and the alternative.
func (d *Device) explainNewer(err error, feature, need, instead string) error {
	if !unsupported(err) {
		return err
	}
	return &UnsupportedError{Feature: feature, Need: "rdma-core v59 or later, and " + need,
		Have: fmt.Sprintf("%s: %v; %s", d.Name(), err, instead)}
}
