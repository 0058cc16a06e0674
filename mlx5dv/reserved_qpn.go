package mlx5dv

import "github.com/pureverbs/pureverbs/ibv"

// ReservedQPN is a number that no QP of the device has until Close: for a program that connects with
// rdma_cm and has a QP that is no QP of its device, such as a shared one.
//
// It belongs to its Device.
type ReservedQPN struct {
	node
	num uint32
}

// ReserveQPN reserves a number.
//
// C: mlx5dv_reserved_qpn_alloc(3), of libmlx5 v34.
func ReserveQPN(dev *ibv.Device) (*ReservedQPN, error) {
	c, q := begin(dev, "mlx5dv reserve qpn"), new(ReservedQPN)
	return create(c, q, &q.node, "reserved qpn", func() (_ uintptr, err error) {
		q.num, err = c.lib.ReservedQPNAlloc(c.handle)
		return c.handle, verbs.ExplainUnsupported(err, "reserved QPNs", "a device with them, opened with DevX",
			dev.Name()+" without")
	})
}

// Num returns the number.
func (q *ReservedQPN) Num() uint32 { return q.num }

// Close gives the number back. libmlx5 hands it out again only when others of its kind were.
//
// C: mlx5dv_reserved_qpn_dealloc(3).
func (q *ReservedQPN) Close() error {
	return q.close(func() error { return q.lib.ReservedQPNDealloc(q.handle, q.num) })
}
