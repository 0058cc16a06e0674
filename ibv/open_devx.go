package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// DevX lets a process send commands to mlx5's firmware. It belongs to the open device: libmlx5 requests it when it
// opens one. From v29 on it does so always (rdma-core v29.0, providers/mlx5/mlx5.c:1226). From v22 to v28 it does so
// in mlx5dv_open_device alone, and calls that need DevX return EINVAL on other contexts.

// openHandle opens a device, with DevX if that is possible. noDevX is why an old libmlx5 did not get it.
func (v *verbs) openHandle(dev uintptr) (h uintptr, noDevX, err error) {
	if lib, ok := v.devXOnRequest(); ok {
		if drives, err := lib.Drives(dev); err == nil && drives {
			h, noDevX = lib.OpenDevice(dev, &abi.MLX5DVContextAttr{Flags: abi.MLX5DV_CONTEXT_FLAGS_DEVX})
			if noDevX == nil {
				return h, nil, nil
			}
		}
	}
	h, err = v.OpenDevice(dev)
	return h, noDevX, err
}

// devXOnRequest returns libmlx5 if it requests DevX in mlx5dv_open_device alone. With libibverbs v30 or later it does
// not open libmlx5.
func (v *verbs) devXOnRequest() (control.Rings, bool) {
	if v.HasDeviceIndex() {
		return nil, false
	}
	lib, err := v.mlx5()
	return lib, err == nil && !lib.OpensWithDevX()
}

// whyNoDevX returns why the device has no DevX, nil if it has or if its kernel refuses it.
func (d *Device) whyNoDevX() error {
	if d.noDevX != nil {
		return fmt.Errorf("the kernel or the device refused DevX when %s was opened: %w", d.Name(), d.noDevX)
	}
	if !d.lent && !d.adopted {
		return nil
	}
	if _, ok := d.v.devXOnRequest(); !ok {
		return nil
	}
	return fmt.Errorf("another library opened %s, and libmlx5 before rdma-core v29 requests DevX only if it is asked",
		d.Name())
}
