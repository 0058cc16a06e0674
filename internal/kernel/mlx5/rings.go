package mlx5

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/control"
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

// RegDmabufMR registers a part of a dma-buf. Data direct, the only access of mlx5 alone, is not served.
func (r *Rings) RegDmabufMR(h handle, off uint64, length int, iova uint64, fd int, access, own uint32) (handle, error) {
	if own != 0 {
		return 0, syscall.EOPNOTSUPP
	}
	return r.v.RegDmabufMR(h, off, length, iova, fd, access)
}
