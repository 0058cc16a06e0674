//go:build linux

package verbs

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// allocDMAH makes advice on DMA. C: mlx5_ib_alloc_dmah: there must be a hint, and steering is whole.
func allocDMAH(c *call) unix.Errno {
	cpu, memory := c.b.Has(1), c.b.Has(2)
	switch {
	case !c.ctx.Device.Recent():
		return refuse(c)
	case !c.b.Has(3), c.b.Uint(3) > 3, cpu != memory, cpu && c.b.Uint(1) >= uint64(runtime.NumCPU()):
		return unix.EINVAL
	}
	return named(c, func() (*hca.DMAHandle, unix.Errno) { return hca.AllocDMAH(c.ctx) })
}
