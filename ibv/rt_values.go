package ibv

import (
	"math"
	"math/bits"
	"time"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// RTValues are values of the device that change all the time.
//
// C: struct ibv_values_ex.
type RTValues struct {
	RawClock uint64 // the clock's ticks, which WC.Timestamp counts as well
}

// QueryRTValues reads the device's clock. Two readings, or a reading and a timestamp, are
// DeviceAttrEx.Ticks apart.
//
// C: ibv_query_rt_values_ex(3).
func (d *Device) QueryRTValues() (r RTValues, err error) {
	err = d.do("query rt values", func() error {
		v := &abi.ValuesEx{CompMask: abi.IBV_VALUES_MASK_RAW_CLOCK}
		err := d.v.QueryRTValuesEx(d.handle, v)
		if err == nil && v.CompMask&abi.IBV_VALUES_MASK_RAW_CLOCK == 0 {
			err = ErrNotSupported
		}
		if err == nil {
			r.RawClock = uint64(v.RawClock.Sec)*1e9 + uint64(v.RawClock.Nsec)
		}
		return d.explainLack(err, "reading the device's clock", "libibverbs with query_rt_values",
			"a driver and a provider that map it, such as mlx5", "")
	})
	return r, err
}

// Ticks returns how long n ticks of the device's clock last, 0 if its rate is unknown.
func (a *DeviceAttrEx) Ticks(n uint64) time.Duration {
	const perKHz = uint64(time.Second) / 1000
	hi, lo := bits.Mul64(n, perKHz)
	switch {
	case a.HCACoreClockKHz == 0:
		return 0
	case hi >= a.HCACoreClockKHz:
		return math.MaxInt64
	}
	ns, _ := bits.Div64(hi, lo, a.HCACoreClockKHz)
	return time.Duration(min(ns, math.MaxInt64))
}
