//go:build linux

package hca

import "golang.org/x/sys/unix"

// DMAHandle is advice on DMA for regions. It has no effect here. C: struct ib_dmah.
type DMAHandle struct{ Held }

// AllocDMAH makes a handle.
func AllocDMAH(c *Context) (*DMAHandle, unix.Errno) {
	return added(c, &DMAHandle{c.held(rankMemory, "DMA handle")})
}
