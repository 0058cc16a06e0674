package mlx5dv

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/friend"
)

// verbs is the part of package ibv that is internal to this module.
var verbs = ibv.Internal.Show(friend.Mine)

var opError = verbs.OpError

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
