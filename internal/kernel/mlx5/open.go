package mlx5

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// openFile opens the file of a device, if its versions are known.
func openFile(root sysfs.Root, d *device) (*uverbs.File, error) {
	if !d.checked.Load() {
		if err := d.node.Check(root, abi.MLX5_IB_UVERBS_ABI_VERSION); err != nil {
			return nil, err
		}
		d.checked.Store(true)
	}
	f, err := d.node.Open(driverID, &d.forms)
	if err != nil {
		d.found.Store(false)
	}
	return f, err
}
