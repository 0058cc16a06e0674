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

// TestClockPage: a page that is being written is not read, and one that is written at the same time is read whole.
func TestClockPage(t *testing.T) {
	p, got := new(ClockPage), MLX5DVClockInfo{Nsec: 5}
	p.Sign.Store(1)
	if p.Read(&got) || got != (MLX5DVClockInfo{Nsec: 5}) {
		t.Errorf("a page that is never whole: %+v", got)
	}
	const rounds = 10_000
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range uint64(rounds) {
			p.Sign.Store(uint32(2*i + 1))
			p.Nsec.Store(i)
			p.Cycles.Store(i)
			p.Frac.Store(i)
			p.Mult.Store(uint32(i))
			p.Shift.Store(uint32(i))
			p.Mask.Store(i)
			p.Sign.Store(uint32(2*i + 2))
		}
	}()
	for ended := false; !ended; {
		select {
		case <-written:
			ended = true
		default:
		}
		if !p.Read(&got) {
			continue
		}
		i := got.Nsec
		want := MLX5DVClockInfo{Nsec: i, LastCycles: i, Frac: i, Mult: uint32(i), Shift: uint32(i), Mask: i}
		if ended && i != rounds-1 || got != want {
			t.Fatalf("%+v, want one state", got)
		}
	}
}
