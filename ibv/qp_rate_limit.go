package ibv

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// RateLimit bounds the sending rate of a QP.
//
// C: struct ibv_qp_rate_limit_attr.
type RateLimit struct {
	Rate          uint32 // kb/s, 0 for no limit
	MaxBurst      uint32 // bytes sent at once, 0 for the device's default
	TypicalPacket uint16 // bytes, 0 for the device's default
}

// ModifyRateLimit changes the rate limit of a QP in RTS. DeviceAttrEx.PacketPacing has the limits
// and the QP types.
//
// C: ibv_modify_qp_rate_limit(3).
func (qp *QP) ModifyRateLimit(r RateLimit) error {
	return qp.do("modify rate limit", func() error {
		if err := r.check(qp); err != nil {
			return err
		}
		return explainRateLimit(qp.dev, qp.dev.v.ModifyQPRateLimit(qp.dev.handle, qp.handle, &abi.QPRateLimitAttr{
			RateLimit: r.Rate, MaxBurstSz: r.MaxBurst, TypicalPktSz: r.TypicalPacket}))
	})
}

// check reports why a QP cannot have the limit.
func (r RateLimit) check(qp *QP) error {
	if s := qp.loadState(); s != StateRTS {
		return &StateError{Op: "a rate limit", State: s, Need: "RTS"}
	}
	ex := qp.dev.attr.Ex
	if ex == nil {
		return nil // the device is asked
	}
	p := ex.PacketPacing
	switch {
	case p.Max == 0:
		return explainRateLimit(qp.dev, ErrNotSupported)
	case !p.QPTypes.Has(qp.typ):
		return &UnsupportedError{Feature: "a rate limit of a " + qp.typ.String() + " QP", Need: "a QP of " +
			p.QPTypes.String(), Have: qp.dev.Name()}
	case r.Rate > p.Max:
		return &LimitError{What: "rate_limit", Asked: uint64(r.Rate), Limit: uint64(p.Max), Where: qp.dev.Name()}
	case r.Rate != 0 && r.Rate < p.Min:
		return &ArgError{Arg: "rate_limit", Got: fmt.Sprint(r.Rate),
			Want: fmt.Sprintf("0, or %d to %d kb/s", p.Min, p.Max)}
	}
	return nil
}

func explainRateLimit(d *Device, err error) error {
	switch {
	case errors.Is(err, control.ErrNoOp):
		return d.v.lacks("a rate limit", "libibverbs of rdma-core v18 or later", "")
	case err != nil && unsupported(err):
		return &UnsupportedError{Feature: "a rate limit", Need: "a device with DeviceAttrEx.PacketPacing",
			Have: d.Name() + " without it; post less at a time"}
	}
	return err
}
