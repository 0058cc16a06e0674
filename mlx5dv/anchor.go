package mlx5dv

import (
	"errors"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// SteeringAnchor is the number of a priority of the kernel's tables, for steering that the program
// does by DevX: its own tables end there to have the kernel's rules go on.
//
// It belongs to its Device.
//
// C: struct mlx5dv_steering_anchor.
type SteeringAnchor struct {
	node
	id uint32
}

// CreateSteeringAnchor makes an anchor of a priority of a table. The program needs CAP_NET_RAW.
//
// C: mlx5dv_create_steering_anchor(3), of libmlx5 v42.
func CreateSteeringAnchor(dev *ibv.Device, table FlowTable, priority int) (*SteeringAnchor, error) {
	c, a := begin(dev, "create steering anchor"), new(SteeringAnchor)
	return create(c, a, &a.node, "steering anchor", func() (h uintptr, err error) {
		o := FlowMatcherOptions{Table: table}
		if err := errors.Join(o.checkTable(), checkPriority(priority)); err != nil {
			return 0, err
		}
		h, a.id, err = c.lib.CreateSteeringAnchor(c.handle, &abi.MLX5DVSteeringAnchorAttr{FTType: uint32(table),
			Priority: uint16(priority)})
		return h, explainSteering(err, dev, "an anchor of table "+table.String(), priority)
	})
}

// ID returns the number of the anchor's table.
func (a *SteeringAnchor) ID() uint32 { return a.id }

// Close destroys the anchor.
//
// C: mlx5dv_destroy_steering_anchor(3).
func (a *SteeringAnchor) Close() error { return a.destroy(a.lib.DestroySteeringAnchor) }
