package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// DMOptions configures device memory. The zero value selects the defaults.
type DMOptions struct {
	ibv.DMOptions
	Type DMType
}

// AllocDM allocates memory of the device; opt may be nil. The types for steering hold what the
// device reads when it steers packets: ReadAt, WriteAt and RegDM are for DMMemic.
//
// C: mlx5dv_alloc_dm(3), of libmlx5 v24.
func AllocDM(dev *ibv.Device, size int, opt *DMOptions) (*ibv.DM, error) {
	const op = "mlx5dv alloc dm"
	if opt == nil {
		opt = &DMOptions{}
	}
	lib, h, err := begin(dev, op).reach()
	if err != nil {
		return nil, err
	}
	return verbs.AllocDM(dev, op, size, &opt.DMOptions, opt.Type == DMMemic,
		func(attr *abi.AllocDMAttr) (uintptr, error) {
			return lib.AllocDM(h, attr, &abi.MLX5DVAllocDMAttr{Type: uint32(opt.Type)})
		})
}

// MapDMOp maps the address at which a store of the processor into device memory has the effect of
// an operation, op, of the device's own numbering. The result is as long as the DM, and stays mapped
// until the process ends; it is device memory, not for sync/atomic.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dm_map_op_addr(3), of libmlx5 v35.
func MapDMOp(dm *ibv.DM, op uint8) (b []byte, err error) {
	ref, dev := verbs.Ref(dm)
	err = onObject("mlx5dv map dm op", "dm", "an open DM", ref, dev, func(c *call, h uintptr) error {
		p, err := c.lib.DMMapOpAddr(h, op)
		if err == nil {
			b = memory(p, uint64(dm.Len()))
		}
		return verbs.ExplainUnsupported(err, fmt.Sprintf("operation %d on device memory", op),
			"a device with operations on its memory", dev.Name()+" without this one")
	})
	return b, err
}
