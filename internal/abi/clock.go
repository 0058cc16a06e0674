package abi

import (
	"structs"
	"sync/atomic"
)

// ClockPage is the page by which the kernel relates ticks to time.
//
// C: struct mlx5_ib_clock_info, of rdma/mlx5-abi.h.
type ClockPage struct {
	_                  structs.HostLayout
	Sign               atomic.Uint32 // odd while the kernel writes the rest
	_                  uint32
	Nsec, Cycles, Frac atomic.Uint64
	Mult, Shift        atomic.Uint32
	Mask, Period       atomic.Uint64
}

// Read reports whether it has read the page. It gives up if the kernel writes the page for long.
func (p *ClockPage) Read(o *MLX5DVClockInfo) bool {
	const updating = 1 << 0 // C: MLX5_IB_CLOCK_INFO_KERNEL_UPDATING
	const tries = 1000
	for range tries {
		before := p.Sign.Load()
		if before&updating != 0 {
			continue
		}
		i := MLX5DVClockInfo{Nsec: p.Nsec.Load(), LastCycles: p.Cycles.Load(), Frac: p.Frac.Load(), Mult: p.Mult.Load(),
			Shift: p.Shift.Load(), Mask: p.Mask.Load()}
		if p.Sign.Load() == before {
			*o = i
			return true
		}
	}
	return false
}
