package mlx5dv

import (
	"errors"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/friend"
)

// verbs is the part of package ibv that is internal to this module.
var verbs = ibv.Internal.Show(friend.Mine)

func opError(op, object string, err error) error {
	var e *ibv.OpError
	if errors.As(err, &e) && e.Op == op {
		return err
	}
	return &ibv.OpError{Op: op, Object: object, Err: verbs.ExplainNative(err, op)}
}

// enter keeps dev open until leave. It fails if dev is not one of mlx5.
func enter(dev *ibv.Device, op string) (lib control.MLX5, handle uintptr, leave func(), err error) {
	if dev == nil {
		return lib, 0, nil, opError(op, "", &ibv.ArgError{Arg: "dev", Got: "nil", Want: "an open device"})
	}
	h, leave, err := verbs.Enter(dev, op)
	if err != nil {
		return lib, 0, nil, err
	}
	lib, ok, err := supported(dev, h)
	if err == nil && !ok {
		have := dev.Name() + ", which another provider drives"
		err = &ibv.UnsupportedError{Feature: op, Need: "a device that libmlx5 drives", Have: have}
	}
	if err != nil {
		leave()
		return lib, 0, nil, opError(op, dev.Name(), err)
	}
	return lib, h, leave, nil
}

// reach is enter for a call that enters the device, or an object that keeps it open, on its own.
func reach(dev *ibv.Device, op string) (lib control.MLX5, handle uintptr, err error) {
	lib, handle, leave, err := enter(dev, op)
	if err == nil {
		leave()
	}
	return lib, handle, err
}

// native reports whether the device is on the native control path.
func native(dev *ibv.Device) bool {
	path, _ := dev.ControlPath()
	return path == ibv.ControlNative
}

// supported returns what the control path of the device has for mlx5, and reports whether the device is one of mlx5.
func supported(dev *ibv.Device, handle uintptr) (lib control.MLX5, ok bool, err error) {
	if lib, err = verbs.MLX5(dev); err == nil {
		ok, err = lib.IsSupported(handle)
	}
	return lib, ok, err
}

// memory returns the n bytes that libmlx5 has allocated at p, nil if p is 0.
func memory(p uintptr, n uint64) []byte { return cmem.Slice[byte](p, int(n)) }
