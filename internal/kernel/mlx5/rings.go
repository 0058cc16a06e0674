package mlx5

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// QPExFromIBVQPEx returns control.ErrNoOp: there is no such struct.
func (r *Rings) QPExFromIBVQPEx(handle) (uintptr, error) { return 0, control.ErrNoOp }

// DevXGeneralCmd sends a command to the firmware.
func (c devX) DevXGeneralCmd(in, out []byte) error { return c.general(in, out) }

// NoInlineHeaders reports whether the device wants no header of a frame in the work request.
func (c devX) NoInlineHeaders() (bool, error) {
	return c.info.EthMinInline == abi.MLX5_USER_INLINE_MODE_NONE, nil
}

// GetDataDirectSysfsPath returns the path of the function for data direct in sysfs, and a zero behind it.
func (c devX) GetDataDirectSysfsPath(buf []byte) error {
	const object, method, attr = 0, driverNamespace + 1, driverNamespace // C: MLX5_IB_METHOD_GET_DATA_DIRECT_SYSFS_PATH
	return unsupported(c.file.Method("get_data_direct_sysfs_path", object, method, uverbs.Out(attr, buf)))
}
