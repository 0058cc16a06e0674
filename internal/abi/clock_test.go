package abi

import (
	"math/big"
	"testing"
)

// TestNanoseconds: a clock that nobody has updated for long, one with a fraction, and timestamps before and after.
func TestNanoseconds(t *testing.T) {
	for _, c := range []MLX5DVClockInfo{
		{Nsec: 1 << 60, LastCycles: 1 << 40, Mult: 1 << 21, Shift: 21, Mask: 1<<48 - 1},
		{Nsec: 1 << 60, LastCycles: 5, Mult: 1 << 31, Shift: 31, Mask: 1<<63 - 1, Frac: 1<<31 - 1},
		{Nsec: 1 << 60, LastCycles: 1<<41 - 7, Mult: 0xccccccce, Shift: 29, Mask: 1<<41 - 1, Frac: 99},
	} {
		for _, ticks := range []int64{0, 1, 1 << 20, 1 << 33, 3 << 33, 1<<40 - 1, -1, -12345, -1 << 33, -1 << 39} {
			ns := new(big.Int).Mul(big.NewInt(ticks), big.NewInt(int64(c.Mult)))
			ns.Add(ns, new(big.Int).SetUint64(c.Frac)).Rsh(ns, uint(c.Shift))
			want := c.Nsec + uint64(ns.Int64())
			got := c.Nanoseconds((c.LastCycles + uint64(ticks)) & c.Mask)
			if d := int64(got - want); d < 0 || d > 1 { // the fraction is rounded in either direction
				t.Errorf("%+v: %d ticks later: %d, want %d", c, ticks, got, want)
			}
		}
	}
}
