//go:build linux

package hca

import "golang.org/x/sys/unix"

// DMAHandle is advice on DMA for regions. It has no effect here. C: struct ib_dmah.
type DMAHandle struct {
	Held
	refs int // regions
}

// AllocDMAH makes a handle.
func AllocDMAH(c *Context) (*DMAHandle, unix.Errno) {
	h := &DMAHandle{}
	c.add(h)
	return h, 0
}

// Destroy frees a handle that no region has.
func (h *DMAHandle) Destroy() unix.Errno {
	if e := h.busy(h.refs); e != 0 {
		return e
	}
	h.forget()
	return 0
}

func (*DMAHandle) order() order { return order{rankMemory, "DMA handle"} }
