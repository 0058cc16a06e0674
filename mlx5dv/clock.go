package mlx5dv

import (
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// Clock relates the ticks of a device's clock, which ibv.WC.Timestamp holds, to the kernel's time. It is a
// snapshot. Read it again before DeviceAttr.MaxClockInfoUpdate has passed: after that, the clock may
// have wrapped, and timestamps are ambiguous.
//
// C: struct mlx5dv_clock_info.
type Clock struct {
	Nsec       uint64 // the kernel's time at LastCycles, since 1970
	LastCycles uint64
	Frac       uint64 // fraction of a nanosecond, in units of 1/2^Shift
	Mult       uint32 // nanoseconds per tick, in units of 1/2^Shift
	Shift      uint32
	Mask       uint64 // the bits of the clock
}

// ReadClock returns the current relation, without a system call. EBUSY means that the kernel was
// updating it: try again. EINVAL means that the device or the kernel does not support it.
//
// C: mlx5dv_get_clock_info(3).
func ReadClock(dev *ibv.Device) (Clock, error) {
	c, i := begin(dev, "mlx5dv read clock"), new(abi.MLX5DVClockInfo)
	err := c.do(func() error { return c.lib.GetClockInfo(c.handle, i) })
	if err != nil {
		return Clock{}, err
	}
	return Clock{Nsec: i.Nsec, LastCycles: i.LastCycles, Frac: i.Frac, Mult: i.Mult, Shift: i.Shift, Mask: i.Mask}, nil
}

// Nanoseconds converts a timestamp to nanoseconds since 1970. The timestamp must be at most half
// the clock's range before or after the snapshot.
//
// C: mlx5dv_ts_to_ns(3).
func (c *Clock) Nanoseconds(ts uint64) uint64 {
	info := abi.MLX5DVClockInfo{Nsec: c.Nsec, LastCycles: c.LastCycles, Frac: c.Frac, Mult: c.Mult, Shift: c.Shift,
		Mask: c.Mask}
	return info.Nanoseconds(ts)
}

// Time is Nanoseconds as a time.Time.
func (c *Clock) Time(ts uint64) time.Time { return time.Unix(0, int64(c.Nanoseconds(ts))) }
