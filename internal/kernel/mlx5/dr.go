package mlx5

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// drDomain are the frames that rules are about. C: enum mlx5dv_dr_domain_type, which is that of the root tables.
type drDomain struct {
	object
	typ uint32
}

// drTable is a root table.
type drTable struct {
	object
	domain *drDomain
}

// drAction is an action of rules, as matchers take it. It is of no context.
type drAction struct {
	abi.MLX5DVFlowActionAttr
	made *flowAction // by the kernel; nil if it makes none
}

// DRDomainCreate makes a domain of a device whose first port is Ethernet.
func (c steering) DRDomainCreate(typ uint32) (*drDomain, error) {
	var port abi.PortAttr
	switch err := queries(c).QueryPort(1, &port); {
	case err != nil:
		return nil, err
	case port.LinkLayer != abi.IBV_LINK_LAYER_ETHERNET:
		return nil, syscall.EOPNOTSUPP
	case typ > abi.MLX5DV_DR_DOMAIN_TYPE_FDB:
		return nil, syscall.EINVAL
	}
	return &drDomain{object{c: c.context}, typ}, nil
}

// DRDomainDestroy ends a domain.
func (d *drDomain) DRDomainDestroy() error { return nil }

// DRTableCreate returns the root table of a domain.
func (d *drDomain) DRTableCreate(level uint32) (*drTable, error) {
	if level > 0 {
		return nil, control.ErrNotNative
	}
	return &drTable{object{c: d.c}, d}, nil
}

// DRTableDestroy forgets a root table.
func (t *drTable) DRTableDestroy() error { return nil }

// DRMatcherCreate makes a matcher.
func (t *drTable) DRMatcherCreate(priority uint16, criteria uint8, mask []byte) (*matcher, error) {
	return steering{t.c}.CreateFlowMatcher(&abi.MLX5DVFlowMatcherAttr{Type: normalFlow, Priority: priority,
		MatchCriteriaEnable: criteria, CompMask: abi.MLX5DV_FLOW_MATCHER_MASK_FT_TYPE, FTType: t.domain.typ}, mask)
}

// DRMatcherDestroy ends a matcher.
func (n *matcher) DRMatcherDestroy() error { return n.DestroyFlowMatcher() }

// DRRuleCreate makes a rule.
func (n *matcher) DRRuleCreate(value []byte, actions []handle) (*flow, error) {
	list := make([]abi.MLX5DVFlowActionAttr, len(actions))
	for i, a := range actions {
		a, err := get[drAction](n.c.v, a)
		if err != nil {
			return nil, err
		}
		list[i] = a.MLX5DVFlowActionAttr
	}
	return n.CreateFlow(value, list)
}

// DRRuleDestroy ends a rule.
func (f *flow) DRRuleDestroy() error { return f.DestroyFlow() }

// newAction returns an action of a kind that matchers take.
func newAction(kind uint32, value uint64) *drAction {
	return &drAction{MLX5DVFlowActionAttr: abi.MLX5DVFlowActionAttr{Type: kind, Value: value}}
}

// DRActionDestroy ends an action.
func (a *drAction) DRActionDestroy() error {
	if a.made == nil {
		return nil
	}
	return a.made.c.v.DestroyFlowAction(0, a.made.handle)
}

// DRActionDrop drops frames.
func (r *Rings) DRActionDrop() (handle, error) {
	return r.v.table.add(newAction(abi.MLX5DV_FLOW_ACTION_DROP, 0)), nil
}

// DRActionDefaultMiss passes frames on as if there were no rule.
func (r *Rings) DRActionDefaultMiss() (handle, error) {
	return r.v.table.add(newAction(abi.MLX5DV_FLOW_ACTION_DEFAULT_MISS, 0)), nil
}

// DRActionTag puts a tag in completions.
func (r *Rings) DRActionTag(tag uint32) (handle, error) {
	return r.v.table.add(newAction(abi.MLX5DV_FLOW_ACTION_TAG, uint64(tag&0xffffff))), nil
}

// DRActionDestQP leads frames to a raw packet QP.
func (q *qp) DRActionDestQP() (*drAction, error) {
	if q.init.QPType != abi.IBV_QPT_RAW_PACKET {
		return nil, syscall.EINVAL
	}
	return newAction(abi.MLX5DV_FLOW_ACTION_DEST_IBV_QP, uint64(q.handle)), nil
}

// DRActionDestTIR leads frames to a TIR of DevX.
func (o *obj) DRActionDestTIR() (*drAction, error) {
	return newAction(abi.MLX5DV_FLOW_ACTION_DEST_DEVX, uint64(o.handle)), nil
}

// DRActionFlowCounter counts frames in a counter of DevX.
func (o *obj) DRActionFlowCounter(offset uint32) (*drAction, error) {
	a := newAction(abi.MLX5DV_FLOW_ACTION_COUNTERS_DEVX, uint64(o.handle))
	if offset != 0 {
		a.Type, a.Offset = abi.MLX5DV_FLOW_ACTION_COUNTERS_DEVX_WITH_OFFSET, offset
	}
	return a, nil
}

// byKernel makes an action that the kernel makes.
func (d *drDomain) byKernel(flags uint32, create func() (*flowAction, error)) (*drAction, error) {
	switch flags {
	case 0:
		return nil, control.ErrNotNative
	case abi.MLX5DV_DR_ACTION_FLAGS_ROOT_LEVEL:
	default:
		return nil, syscall.EINVAL
	}
	made, err := create()
	if err != nil {
		return nil, err
	}
	a := newAction(abi.MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION, uint64(d.c.v.table.add(made)))
	a.made = made
	return a, nil
}

// DRActionModifyHeader changes headers.
func (d *drDomain) DRActionModifyHeader(flags uint32, actions []uint64) (*drAction, error) {
	return d.byKernel(flags, func() (*flowAction, error) {
		return steering{d.c}.CreateFlowActionModifyHeader(actions, d.typ)
	})
}

// DRActionPacketReformat puts frames into a tunnel, or takes them out.
func (d *drDomain) DRActionPacketReformat(flags, way uint32, data []byte) (*drAction, error) {
	return d.byKernel(flags, func() (*flowAction, error) {
		return steering{d.c}.CreateFlowActionPacketReformat(data, way, d.typ)
	})
}
