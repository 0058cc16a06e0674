package mlx5dv

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// SchedOptions are the options of a node or a leaf of the tree by which a device divides its
// bandwidth. The root has none.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_sched_attr.
type SchedOptions struct {
	// Share is the element's share of its parent's bandwidth, relative to the other children of the parent. 0 is the
	// device's default.
	Share int
	// MaxMbps bounds the average rate, in Mb/s. 0 means no bound.
	MaxMbps int
}

// attr returns C's attributes, with the address of the parent, 0 for the root. all is whether they name those that are
// 0.
func (o *SchedOptions) attr(parent uintptr, all bool) (*abi.MLX5DVSchedAttr, error) {
	a := &abi.MLX5DVSchedAttr{Parent: parent}
	if o == nil {
		return a, nil
	}
	for _, f := range []struct {
		name string
		v    int
		to   *uint32
		flag uint32
	}{{"Share", o.Share, &a.BWShare, abi.MLX5DV_SCHED_ELEM_ATTR_FLAGS_BW_SHARE},
		{"MaxMbps", o.MaxMbps, &a.MaxAvgBW, abi.MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW}} {
		if err := fits(f.name, f.v, 32); err != nil {
			return nil, err
		}
		if *f.to = uint32(f.v); all || f.v > 0 {
			a.Flags |= f.flag
		}
	}
	return a, nil
}

// SchedNode is an inner element of the tree: its children are nodes and leaves, which share its
// bandwidth.
//
// It belongs to its parent, the root to the Device.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_sched_node.
type SchedNode struct {
	node
	parent *SchedNode
}

// CreateSchedRoot makes the root of a tree.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_sched_node_create(3), of libmlx5 v33.
func CreateSchedRoot(dev *ibv.Device) (*SchedNode, error) {
	return begin(dev, "mlx5dv create sched root").schedNode(nil, nil)
}

// CreateNode makes a node below n. A nil opt leaves the device's defaults.
//
// C: mlx5dv_sched_node_create(3).
func (n *SchedNode) CreateNode(opt *SchedOptions) (*SchedNode, error) {
	return n.begin("mlx5dv create sched node").schedNode(n, opt)
}

func (c *call) schedNode(parent *SchedNode, opt *SchedOptions) (*SchedNode, error) {
	n := &SchedNode{parent: parent}
	return create(c, n, &n.node, "sched node", func() (uintptr, error) {
		return c.sched(parent, opt, c.lib.SchedNodeCreate)
	})
}

// sched has make make an element below parent.
func (c *call) sched(parent *SchedNode, opt *SchedOptions,
	make func(dev uintptr, attr *abi.MLX5DVSchedAttr) (uintptr, error)) (uintptr, error) {
	attr, err := opt.attr(parent.address(), false)
	if err != nil {
		return 0, err
	}
	ref, _ := verbs.Ref(c.dev)
	h, err := make(ref.Handle, attr)
	return h, explainSched(c.dev, err)
}

func (n *SchedNode) address() uintptr {
	if n == nil {
		return 0
	}
	return n.handle
}

// Parent returns the node above n, nil for the root.
func (n *SchedNode) Parent() *SchedNode { return n.parent }

// Modify changes the share and the bound of a node other than the root.
//
// C: mlx5dv_sched_node_modify(3).
func (n *SchedNode) Modify(opt *SchedOptions) error {
	const op = "mlx5dv modify sched node"
	if n.parent == nil {
		return opError(op, n.name, &ibv.ArgError{Arg: "node", Got: "the root", Want: "a node with a parent: a root " +
			"has no share and no bound"})
	}
	return modifySched(&n.node, n.parent, op, opt, n.lib.SchedNodeModify)
}

// Close destroys the node; it fails with a *BusyError while it has children.
//
// C: mlx5dv_sched_node_destroy(3).
func (n *SchedNode) Close() error { return n.destroy(n.lib.SchedNodeDestroy) }

// SchedLeaf is an element of the tree that QPs send by: see ScheduleQP.
//
// It belongs to its parent. Close it after the QPs that use it, or move these away first.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_sched_leaf.
type SchedLeaf struct {
	node
	parent *SchedNode
}

// CreateLeaf makes a leaf below n. A nil opt leaves the device's defaults.
//
// C: mlx5dv_sched_leaf_create(3).
func (n *SchedNode) CreateLeaf(opt *SchedOptions) (*SchedLeaf, error) {
	c, l := n.begin("mlx5dv create sched leaf"), &SchedLeaf{parent: n}
	return create(c, l, &l.node, "sched leaf", func() (uintptr, error) {
		return c.sched(n, opt, c.lib.SchedLeafCreate)
	})
}

// Parent returns the node above the leaf.
func (l *SchedLeaf) Parent() *SchedNode { return l.parent }

// Modify changes the share and the bound.
//
// C: mlx5dv_sched_leaf_modify(3).
func (l *SchedLeaf) Modify(opt *SchedOptions) error {
	return modifySched(&l.node, l.parent, "mlx5dv modify sched leaf", opt, l.lib.SchedLeafModify)
}

// Close destroys the leaf.
//
// C: mlx5dv_sched_leaf_destroy(3).
func (l *SchedLeaf) Close() error { return l.destroy(l.lib.SchedLeafDestroy) }

func modifySched(n *node, parent *SchedNode, op string, opt *SchedOptions,
	modify func(uintptr, *abi.MLX5DVSchedAttr) error) error {
	if opt == nil {
		return opError(op, n.name, &ibv.ArgError{Arg: "opt", Got: "nil", Want: "a share and a bound"})
	}
	return n.do(op, func() error {
		attr, err := opt.attr(parent.handle, true) // a parent stays open while it has children
		if err != nil {
			return err
		}
		return explainSched(n.dev, modify(n.handle, attr))
	})
}

// ScheduleQP makes a QP send by leaves of the tree: its requests by send, and its responses to a peer's reads by
// answer, which only RC has. nil, the default, sends outside the tree. The QP is in INIT or RTS; one of type RawPacket
// in RTS.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_modify_qp_sched_elem(3).
func ScheduleQP(qp *ibv.QP, send, answer *SchedLeaf) error {
	const op = "mlx5dv schedule qp"
	return onQP(op, qp, func(c *call, h uintptr, s ibv.QPState) error {
		if answer != nil && qp.Type() != ibv.RC {
			return &ibv.ArgError{Arg: "answer", Got: "a leaf for a QP of type " + qp.Type().String(),
				Want: "nil: only RC answers"}
		}
		var leaves [2]uintptr
		for i, l := range []*SchedLeaf{send, answer} {
			if l == nil {
				continue
			}
			if err := c.use(&l.node, "leaf"); err != nil {
				return err
			}
			leaves[i] = l.handle
		}
		err := c.lib.ModifyQPSchedElem(h, leaves[0], leaves[1])
		if errors.Is(err, syscall.EOPNOTSUPP) && s != ibv.StateRTS && s != ibv.StateInit {
			err = &ibv.StateError{Op: op, State: s, Need: "INIT or RTS"}
		}
		return explainSched(c.dev, err)
	})
}

func explainSched(dev *ibv.Device, err error) error {
	return verbs.ExplainUnsupported(err, "the scheduler",
		"a device with DevX that schedules what it sends by elements of its own", dev.Name()+" without")
}
