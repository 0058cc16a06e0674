package mlx5

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

const (
	normalFlow = 0 // C: MLX5_IB_FLOW_TYPE_NORMAL

	// The driver's methods of the kernel's kinds of objects. C: enum mlx5_ib_flow_methods, mlx5_ib_flow_action_methods.
	objectFlow       = 9
	objectFlowAction = 13
	methodHeader     = driverNamespace
	methodReformat   = driverNamespace + 1
)

// CreateFlowMatcher makes a matcher with a mask.
func (c steering) CreateFlowMatcher(a *abi.MLX5DVFlowMatcherAttr, mask []byte) (*matcher, error) {
	const table, port = abi.MLX5DV_FLOW_MATCHER_MASK_FT_TYPE, abi.MLX5DV_FLOW_MATCHER_MASK_IB_PORT
	transport := a.FTType == abi.MLX5DV_FLOW_TABLE_TYPE_RDMA_TRANSPORT_RX ||
		a.FTType == abi.MLX5DV_FLOW_TABLE_TYPE_RDMA_TRANSPORT_TX
	switch {
	case a.CompMask&^(table|port) != 0, a.Type != normalFlow:
		return nil, syscall.EOPNOTSUPP
	case transport && a.CompMask&port == 0:
		return nil, syscall.EINVAL
	case !transport && a.CompMask&port != 0:
		return nil, syscall.EOPNOTSUPP
	}
	n := &matcher{newKernelObject(c.context)}
	return n, c.creates("flow_matcher_create", objectMatcher, &n.number, uverbs.In(attr0+1, mask),
		uverbs.In(attr0+2, uverbs.Bytes(&a.Priority)), // with the type, which is 0
		uverbs.In(attr0+3, uverbs.Bytes(&a.MatchCriteriaEnable)),
		uverbs.If(a.Flags != 0, uverbs.Uint64(attr0+4, uint64(a.Flags))),
		uverbs.If(a.CompMask&table != 0, uverbs.Uint64(attr0+5, uint64(a.FTType))),
		uverbs.If(a.CompMask&port != 0, uverbs.Uint32(attr0+6, a.IBPort)))
}

// DestroyFlowMatcher ends a matcher.
func (n *matcher) DestroyFlowMatcher() error {
	return n.c.drop("flow_matcher_destroy", objectMatcher, n.number)
}

// TakesOffsets returns true.
func (r *Rings) TakesOffsets() bool { return true }

// ruleArgs are the actions of a rule as the kernel takes them.
type ruleArgs struct {
	v       *Verbs
	c       *context
	list    []uverbs.Arg
	changes []uint32
	kinds   map[string]bool
}

// once reports whether the rule has no other action of a kind yet.
func (r *ruleArgs) once(kind string) bool {
	had := r.kinds[kind]
	r.kinds[kind] = true
	return !had
}

// add takes an action, whose Value is a handle or a tag.
func (r *ruleArgs) add(a *abi.MLX5DVFlowActionAttr) error {
	const destination, counter = "destination", "counter"
	switch h := handle(a.Value); a.Type {
	case abi.MLX5DV_FLOW_ACTION_DEST_IBV_QP:
		q, err := get[qp](r.v, h)
		return r.take(err, destination, func() (*context, uverbs.Arg) { return q.c, uverbs.Handle(attr0+2, q.kernel) })
	case abi.MLX5DV_FLOW_ACTION_DEST_DEVX:
		o, err := get[obj](r.v, h)
		return r.take(err, destination, func() (*context, uverbs.Arg) { return o.c, uverbs.Handle(attr0+3, o.number) })
	case abi.MLX5DV_FLOW_ACTION_DEFAULT_MISS, abi.MLX5DV_FLOW_ACTION_DROP:
		flag := uint32(abi.MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP)
		if a.Type == abi.MLX5DV_FLOW_ACTION_DEFAULT_MISS {
			flag = abi.MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS
		}
		return r.take(nil, destination, func() (*context, uverbs.Arg) { return r.c, uverbs.Uint32(attr0+9, flag) })
	case abi.MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION:
		f, err := mine[flowAction](r.c, h)
		if err == nil {
			r.changes = append(r.changes, f.number)
		}
		return err
	case abi.MLX5DV_FLOW_ACTION_TAG:
		return r.take(nil, "tag", func() (*context, uverbs.Arg) { return r.c, uverbs.Uint32(attr0+6, uint32(a.Value)) })
	case abi.MLX5DV_FLOW_ACTION_COUNTERS_DEVX, abi.MLX5DV_FLOW_ACTION_COUNTERS_DEVX_WITH_OFFSET:
		o, err := get[obj](r.v, h)
		if a.Type == abi.MLX5DV_FLOW_ACTION_COUNTERS_DEVX_WITH_OFFSET {
			r.list = append(r.list, uverbs.Uint32(attr0+8, a.Offset))
		}
		return r.take(err, counter, func() (*context, uverbs.Arg) { return o.c, uverbs.Uint32(attr0+7, o.number) })
	}
	return syscall.EOPNOTSUPP
}

// take adds an argument of a kind that a rule has once.
func (r *ruleArgs) take(err error, kind string, arg func() (*context, uverbs.Arg)) error {
	if err != nil {
		return err
	}
	c, a := arg()
	switch {
	case c != r.c:
		return syscall.EINVAL
	case !r.once(kind):
		return syscall.EOPNOTSUPP
	}
	r.list = append(r.list, a)
	return nil
}

// CreateFlow makes a rule of a matcher.
func (n *matcher) CreateFlow(value []byte, actions []abi.MLX5DVFlowActionAttr) (*flow, error) {
	r := &ruleArgs{v: n.c.v, c: n.c, kinds: make(map[string]bool), list: []uverbs.Arg{uverbs.In(attr0+1, value),
		uverbs.Handle(attr0+4, n.number)}}
	for i := range actions {
		if err := r.add(&actions[i]); err != nil {
			return nil, err
		}
	}
	r.list = append(r.list, uverbs.If(len(r.changes) > 0, uverbs.In(attr0+5, uverbs.BytesOf(r.changes))))
	f := &flow{kernelObject: newKernelObject(n.c)}
	return f, n.c.creates("create_flow", objectFlow, &f.number, r.list...)
}

func (c steering) action(name string, method uint16, args ...uverbs.Arg) (*flowAction, error) {
	a := &flowAction{newKernelObject(c.context)}
	return a, unsupported(c.file.Method(name, objectFlowAction, method, append(args, uverbs.New(attr0, &a.number))...))
}

// CreateFlowActionModifyHeader makes an action that changes headers.
func (c steering) CreateFlowActionModifyHeader(actions []uint64, table uint32) (*flowAction, error) {
	return c.action("create_modify_header", methodHeader, uverbs.In(attr0+1, uverbs.BytesOf(actions)),
		uverbs.Uint64(attr0+2, uint64(table)))
}

// CreateFlowActionPacketReformat makes an action that puts frames into a tunnel, or takes them out.
func (c steering) CreateFlowActionPacketReformat(data []byte, reformat, table uint32) (*flowAction, error) {
	return c.action("create_packet_reformat", methodReformat, uverbs.Uint64(attr0+1, uint64(reformat)),
		uverbs.Uint64(attr0+2, uint64(table)), uverbs.If(len(data) > 0, uverbs.In(attr0+3, data)))
}

// CreateFlowActionESP returns EOPNOTSUPP, as kernels since Linux 5.18 do.
func (r *Rings) CreateFlowActionESP(handle, *abi.ESP, *abi.MLX5DVFlowActionESP) (handle, error) {
	return 0, syscall.EOPNOTSUPP
}

// DestroyFlowAction ends an action.
func (a *flowAction) DestroyFlowAction() error {
	const method, attr = 1, 0 // C: UVERBS_METHOD_FLOW_ACTION_DESTROY
	return a.c.destroyed(a.c.file.Method("destroy_flow_action", objectFlowAction, method,
		uverbs.Handle(attr, a.number)))
}

// CreateSteeringAnchor returns the number of a priority of a table.
func (c steering) CreateSteeringAnchor(a *abi.MLX5DVSteeringAnchorAttr) (*anchor, uint32, error) {
	if a.CompMask != 0 {
		return nil, 0, syscall.EOPNOTSUPP
	}
	n, id := &anchor{newKernelObject(c.context)}, new(uint32)
	err := c.creates("steering_anchor_create", objectAnchor, &n.number,
		uverbs.Uint64(attr0+1, uint64(a.FTType)), uverbs.In(attr0+2, uverbs.Bytes(&a.Priority)),
		uverbs.Out(attr0+3, uverbs.Bytes(id)))
	return n, *id, err
}

// DestroySteeringAnchor ends an anchor.
func (a *anchor) DestroySteeringAnchor() error {
	return a.c.drop("steering_anchor_destroy", objectAnchor, a.number)
}
