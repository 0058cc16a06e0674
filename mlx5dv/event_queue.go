package mlx5dv

import (
	"github.com/pureverbs/pureverbs/ibv"
)

// MSIVector is an interrupt of a device that the program drives itself, by VFIO. It belongs to its
// Device.
//
// C: struct mlx5dv_devx_msi_vector.
type MSIVector struct {
	node
	vector, fd int
}

// AllocMSIVector allocates an interrupt. The device must be driven by VFIO.
//
// C: mlx5dv_devx_alloc_msi_vector(3), of libmlx5 v40.
func AllocMSIVector(dev *ibv.Device) (*MSIVector, error) {
	c, err := begin(dev, "mlx5dv alloc msi vector")
	if err != nil {
		return nil, err
	}
	h, vector, fd, err := c.lib.DevXAllocMSIVector(c.ctx)
	if err != nil {
		return nil, c.fail(explainVFIO(err, dev))
	}
	v := &MSIVector{vector: vector, fd: fd}
	return made(c, v, &v.node, "msi vector", h), nil
}

// Vector returns the number by which CREATE_EQ names the interrupt, and FD the eventfd(2) that it
// signals.
func (v *MSIVector) Vector() int { return v.vector }
func (v *MSIVector) FD() int     { return v.fd }

// Close gives the interrupt back.
//
// C: mlx5dv_devx_free_msi_vector(3).
func (v *MSIVector) Close() error {
	return v.close(func() error { return v.lib.DevXFreeMSIVector(v.handle) })
}

// EventQueue is an event queue that the program reads itself. It belongs to its Device.
//
// C: struct mlx5dv_devx_eq.
type EventQueue struct {
	node
	entries uintptr
}

// CreateEventQueue makes an event queue by the command CREATE_EQ. The device must be driven by VFIO.
//
// C: mlx5dv_devx_create_eq(3), of libmlx5 v40.
func CreateEventQueue(dev *ibv.Device, in, out []byte) (*EventQueue, error) {
	c, err := begin(dev, "mlx5dv create eq")
	if err != nil {
		return nil, err
	}
	q := new(EventQueue)
	var h uintptr
	err = command(in, out, func() (err error) {
		h, q.entries, err = c.lib.DevXCreateEQ(c.ctx, in, out)
		return explainVFIO(err, dev)
	})
	if err != nil {
		return nil, c.fail(err)
	}
	return made(c, q, &q.node, "event queue", h), nil
}

// Entries returns the address of the entries, which the device writes.
func (q *EventQueue) Entries() uintptr { return q.entries }

// Close destroys the event queue.
//
// C: mlx5dv_devx_destroy_eq(3).
func (q *EventQueue) Close() error {
	return q.close(func() error { return q.lib.DevXDestroyEQ(q.handle) })
}

func explainVFIO(err error, dev *ibv.Device) error {
	return verbs.ExplainUnsupported(err, "interrupts and event queues of the program's own",
		"a device that the program drives by VFIO", dev.Name()+", which the kernel drives; use DevXEvents")
}
