package mlx5dv

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// Allocators are C functions that libmlx5 allocates rings with, instead of its own.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_ctx_allocators.
type Allocators struct {
	Alloc uintptr // void *(*)(size_t size, void *data)
	Free  uintptr // void (*)(void *ptr, void *data)
	Data  uintptr // passed to both
}

// SetAllocators has libmlx5 allocate the rings of objects that are made from now on, on either data
// path, with functions of the caller. They are called on the thread that makes or closes an object.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_set_context_attr(3).
func SetAllocators(dev *ibv.Device, a Allocators) error {
	c := begin(dev, "mlx5dv set allocators")
	return c.do(func() error {
		if a.Alloc == 0 || a.Free == 0 {
			return &ibv.ArgError{Arg: "a", Got: "no address", Want: "the addresses of two C functions"}
		}
		return c.lib.SetContextAllocators(c.handle,
			&abi.MLX5DVCtxAllocators{Alloc: a.Alloc, Free: a.Free, Data: a.Data})
	})
}

// DataDirectPath returns the folder in sysfs of the PCI function by which a device reaches memory of
// a GPU directly: RegDmabuf with DataDirect uses it.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_get_data_direct_sysfs_path(3), of libmlx5 v54.
func DataDirectPath(dev *ibv.Device) (string, error) {
	const longest = 4096 // C: PATH_MAX
	b := make([]byte, longest)
	c := begin(dev, "mlx5dv data direct path")
	err := c.do(func() error {
		err := c.lib.GetDataDirectSysfsPath(c.handle, b)
		if errors.Is(err, syscall.ENODEV) {
			err = syscall.EOPNOTSUPP
		}
		return verbs.ExplainUnsupported(err, "data direct", "a device with a function for data direct",
			dev.Name()+" without; use RegDmabuf without DataDirect")
	})
	if err != nil {
		return "", err
	}
	path, _, _ := strings.Cut(string(b), "\x00")
	return filepath.Join("/sys", path), nil
}
