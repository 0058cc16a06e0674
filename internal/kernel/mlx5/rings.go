package mlx5

import (
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// QPExFromIBVQPEx returns control.ErrNoOp: there is no such struct.
func (r *Rings) QPExFromIBVQPEx(handle) (uintptr, error) { return 0, control.ErrNoOp }

// DevXGeneralCmd sends a command to the firmware.
func (r *Rings) DevXGeneralCmd(ctx handle, in, out []byte) error {
	c, err := get[context](r.v, ctx)
	if err != nil {
		return err
	}
	return c.general(in, out)
}

// NoInlineHeaders reports whether the device wants no header of a frame in the work request.
func (r *Rings) NoInlineHeaders(ctx handle) (bool, error) {
	c, err := get[context](r.v, ctx)
	if err != nil {
		return false, err
	}
	return c.info.minInline == inlineNone, nil
}

// RegDmabufMR registers a part of a dma-buf, with access of mlx5's own.
func (r *Rings) RegDmabufMR(h handle, off uint64, length int, iova uint64, fd int, access, own uint32) (handle, error) {
	const directAttr = driverNamespace // C: MLX5_IB_ATTR_REG_DMABUF_MR_ACCESS_FLAGS
	return regDmabufMR(r.v, h, off, length, iova, fd, access,
		uverbs.If(own != 0, uverbs.Uint32(directAttr, own)))
}

// GetDataDirectSysfsPath returns the path of the function for data direct in sysfs, and a zero behind it.
func (r *Rings) GetDataDirectSysfsPath(ctx handle, buf []byte) error {
	const object, method, attr = 0, driverNamespace + 1, driverNamespace // C: MLX5_IB_METHOD_GET_DATA_DIRECT_SYSFS_PATH
	c, err := get[context](r.v, ctx)
	if err != nil {
		return err
	}
	return unsupported(c.file.Method("get_data_direct_sysfs_path", object, method, uverbs.Out(attr, buf)))
}
