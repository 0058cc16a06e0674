package mlx5dv

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// VAR is a doorbell page of emulated virtio devices, which a virtual machine writes to.
//
// It belongs to its Device.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_var.
type VAR struct {
	node
	attr abi.MLX5DVVAR
}

// AllocVAR allocates a doorbell page of emulated virtio devices.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_alloc_var(3), of libmlx5 v28.
func AllocVAR(dev *ibv.Device) (*VAR, error) {
	c, v := begin(dev, "mlx5dv alloc var"), new(VAR)
	return create(c, v, &v.node, "var", func() (uintptr, error) {
		attr, h, err := c.lib.AllocVAR(c.handle)
		if err != nil {
			return 0, verbs.ExplainUnsupported(err, "a VAR", "a device that emulates virtio, and a kernel with VARs",
				dev.Name()+" without")
		}
		v.attr = *attr
		return h, nil
	})
}

// PageID returns the number by which commands name the page.
func (v *VAR) PageID() uint32 { return v.attr.PageID }

// Mmap returns where the page is in the device's file and how long it is, for a process that maps it
// with the descriptor of ibv's Device.
func (v *VAR) Mmap() (off int64, length int) { return v.attr.MmapOff, int(v.attr.Length) }

// Close gives the page back.
//
// C: mlx5dv_free_var(3).
func (v *VAR) Close() error { return v.destroy(v.lib.FreeVAR) }
