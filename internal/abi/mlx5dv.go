package abi

import (
	"math/bits"
	"structs"
)

// MLX5DVInOut is a member of MLX5DVObj: the verbs object, and the mlx5dv struct to fill.
type MLX5DVInOut struct {
	_   structs.HostLayout
	In  uintptr
	Out uintptr
}

// SetStreams sets the streams of a DCI: log2 of how many there are, and of how many may be in error.
func (a *MLX5DVDCInitAttr) SetStreams(log, logErrored uint8) {
	a.DCTAccessKey = uint64(log) | uint64(logErrored)<<8
}

// Nanoseconds converts a timestamp, which must be at most half the clock's range before or after LastCycles, to
// nanoseconds since 1970. C's product overflows some seconds after the kernel's last update; this one does not.
//
// C: mlx5dv_ts_to_ns(3), an inline function.
func (c *MLX5DVClockInfo) Nanoseconds(ts uint64) uint64 {
	if after := (ts - c.LastCycles) & c.Mask; after <= c.Mask/2 {
		hi, lo := bits.Mul64(after, uint64(c.Mult))
		lo, carry := bits.Add64(lo, c.Frac, 0)
		return c.Nsec + shiftRight(hi+carry, lo, c.Shift)
	}
	hi, lo := bits.Mul64((c.LastCycles-ts)&c.Mask, uint64(c.Mult))
	lo, borrow := bits.Sub64(lo, c.Frac, 0)
	return c.Nsec - shiftRight(hi-borrow, lo, c.Shift)
}

// shiftRight returns the lower half of hi<<64 + lo, shifted.
func shiftRight(hi, lo uint64, n uint32) uint64 { return lo>>n | hi<<(64-n) }
