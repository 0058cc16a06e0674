package mlx5dv

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// IsSupported reports whether this package works with a device: whether the libmlx5 of this process
// drives it. It returns an error if that is not known, because there is no libmlx5 or it is older
// than rdma-core v22, which this package does not support.
//
// C: mlx5dv_is_supported(3).
func IsSupported(dev *ibv.Device) (bool, error) {
	const op = "mlx5dv is supported"
	if dev == nil {
		return false, opError(op, "", &ibv.ArgError{Arg: "dev", Got: "nil", Want: "an open device"})
	}
	h, leave, err := verbs.Enter(dev, op)
	if err != nil {
		return false, err
	}
	defer leave()
	_, ok, err := supported(dev, h)
	if err != nil {
		return false, opError(op, dev.Name(), err)
	}
	return ok, nil
}

// QueryDevice returns the mlx5 attributes of a device.
//
// C: mlx5dv_query_device(3).
func QueryDevice(dev *ibv.Device) (attr *DeviceAttr, err error) {
	c := begin(dev, "mlx5dv query device")
	err = c.do(func() (err error) {
		attr, err = queryDevice(c.lib, c.handle)
		return err
	})
	return attr, err
}

// queryDevice is QueryDevice for a device that is entered.
func queryDevice(lib control.MLX5, handle uintptr) (*DeviceAttr, error) {
	c := &abi.MLX5DVContext{CompMask: uint64(allFeatures)}
	if err := lib.QueryDevice(handle, c); err != nil {
		return nil, err
	}
	return deviceAttrFromC(c), nil
}

// allFeatures holds the features of rdma-core v65. Older libraries return those they know.
const allFeatures = HasOOORecv<<1 - 1
