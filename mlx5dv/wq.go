package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// WQOptions are the options of CreateWQ: ibv's, and those of mlx5 alone. The zero value selects the
// defaults.
//
// C: struct mlx5dv_wq_init_attr.
type WQOptions struct {
	ibv.WQOptions

	// Striding makes each receive a buffer of strides, which messages fill one after the other. The caller builds the
	// receives and reads the completions: it needs a CQ made with ibv.DataPathRaw.
	Striding *StridingOptions
}

// StridingOptions are the sizes of a striding receive. DeviceAttr.StridingRQ has the limits.
//
// C: struct mlx5dv_striding_rq_init_attr.
type StridingOptions struct {
	LogStride    int  // base-2 logarithm of the bytes of a stride
	LogStrides   int  // base-2 logarithm of the strides of a receive
	TwoByteShift bool // data begins two bytes into a stride, which aligns what follows an Ethernet header
}

// CreateWQ creates a receive queue in the state ibv.WQReset; opt may be nil. The result is a WQ of
// package ibv, on the data path of its CQ.
//
// C: mlx5dv_create_wq(3), of libmlx5 v16.
func CreateWQ(pd *ibv.PD, cq *ibv.CQ, opt *WQOptions) (*ibv.WQ, error) {
	const op = "mlx5dv create wq"
	if opt == nil {
		opt = &WQOptions{}
	}
	lib, h, err := beginOn(pd, op).reach()
	if err != nil {
		return nil, err
	}
	dev, dv := pd.Device(), new(abi.MLX5DVWQInitAttr)
	if s := opt.Striding; s != nil {
		attr, err := QueryDevice(dev)
		if err == nil {
			err = s.check(dev.Name(), attr, pathOf(cq))
		}
		if err != nil {
			return nil, opError(op, dev.Name(), err)
		}
		dv.CompMask = abi.MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ
		dv.StridingRQAttrs = abi.MLX5DVStridingRQInitAttr{SingleStrideLogNumOfBytes: uint32(s.LogStride),
			SingleWQELogNumOfStrides: uint32(s.LogStrides)}
		if s.TwoByteShift {
			dv.StridingRQAttrs.TwoByteShiftEn = 1
		}
	}
	return verbs.CreateWQ(pd, op, cq, &opt.WQOptions, func(attr *abi.WQInitAttr) (uintptr, error) {
		return lib.CreateWQ(h, attr, dv)
	})
}

// check compares the sizes with those of the device.
func (s *StridingOptions) check(dev string, attr *DeviceAttr, path ibv.DataPath) error {
	has := attr.StridingRQ
	if path != ibv.DataPathRaw {
		return &ibv.UnsupportedError{Feature: "a striding WQ", Need: "a CQ made with ibv.DataPathRaw",
			Have: fmt.Sprintf("the data path %v, whose receives hold one message", path)}
	}
	if attr.Has&HasStridingRQ == 0 || !has.QPTypes.Has(ibv.RawPacket) {
		return &ibv.UnsupportedError{Feature: "a striding WQ",
			Need: "a device with RawPacket among DeviceAttr.StridingRQ.QPTypes",
			Have: dev + "; use a WQ without Striding"}
	}
	for _, l := range []struct {
		name      string
		got       int
		low, high uint32
	}{{"LogStride", s.LogStride, has.MinLogStride, has.MaxLogStride},
		{"LogStrides", s.LogStrides, has.MinLogStrides, has.MaxLogStrides}} {
		if l.got < int(l.low) || l.got > int(l.high) {
			return &ibv.ArgError{Arg: l.name, Got: fmt.Sprint(l.got),
				Want: fmt.Sprintf("%d to %d (DeviceAttr.StridingRQ)", l.low, l.high)}
		}
	}
	return nil
}
