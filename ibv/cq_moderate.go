package ibv

import (
	"fmt"
	"math"
	"time"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// Moderate makes an armed CQ raise one event for several completions: once count of them have
// arrived, or once period has passed since the first. A sleeping Wait then wakes less often,
// and up to period later; Poll is not affected. The setting holds until the next call.
// Moderate(0, 0) turns moderation off, as on a new CQ.
//
// The period is rounded up to whole microseconds. The limits are CQModerationMaxCount and
// CQModerationMaxPeriod of DeviceAttrEx. On a device without moderation, such as SoftRoCE, the
// error is ErrNotSupported.
//
// C: ibv_modify_cq(3) with IBV_CQ_ATTR_MODERATE.
func (cq *CQ) Moderate(count int, period time.Duration) error {
	return cq.do("moderate cq", func() error {
		attr, err := cq.dev.moderation(count, period)
		if err != nil {
			return err
		}
		return cq.dev.explainModeration(cq.dev.v.ModifyCQ(cq.dev.handle, cq.handle, attr))
	})
}

// moderation checks the arguments of Moderate. If the device reports no limits, those of the C
// type apply.
func (d *Device) moderation(count int, period time.Duration) (*abi.ModifyCQAttr, error) {
	maxCount, maxPeriod := math.MaxUint16, math.MaxUint16
	if ex := d.attr.Ex; ex != nil && ex.CQModerationMaxCount > 0 && ex.CQModerationMaxPeriod > 0 {
		maxCount, maxPeriod = int(ex.CQModerationMaxCount), int(ex.CQModerationMaxPeriod)
	}
	longest := time.Duration(maxPeriod) * time.Microsecond
	micros := int(period / time.Microsecond)
	if period > 0 && period%time.Microsecond > 0 {
		micros++
	}
	switch {
	case count < 0:
		return nil, &ArgError{Arg: "cq_count", Got: fmt.Sprint(count), Want: fmt.Sprintf("0 to %d", maxCount)}
	case period < 0:
		return nil, &ArgError{Arg: "cq_period", Got: period.String(), Want: fmt.Sprintf("0s to %v", longest)}
	case count > maxCount:
		return nil, (limit{"cq_count", count, maxCount}).error(d.Name())
	case micros > maxPeriod:
		return nil, (limit{"cq_period_us", micros, maxPeriod}).error(d.Name())
	case count > 0 && period == 0: // the last completions would wait for others that may never come
		return nil, &ArgError{Arg: "cq_period", Got: "0s",
			Want: fmt.Sprintf("1µs to %v with a count; 0 and 0 turn moderation off", longest)}
	case count == 0 && period > 0:
		return nil, &ArgError{Arg: "cq_count", Got: "0",
			Want: fmt.Sprintf("1 to %d with a period; 0 and 0 turn moderation off", maxCount)}
	}
	return &abi.ModifyCQAttr{AttrMask: abi.IBV_CQ_ATTR_MODERATE,
		Moderate: abi.ModerateCQ{CQCount: uint16(count), CQPeriod: uint16(micros)}}, nil
}

// explainModeration returns what moderation needs.
func (d *Device) explainModeration(err error) error {
	return d.explainLack(err, "moderation of a CQ", "libibverbs of rdma-core v16 or later",
		"a driver and a provider with support for it, such as mlx5",
		"; without it each completion of an armed CQ raises an event")
}
