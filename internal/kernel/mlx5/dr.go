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
type drAction struct{ abi.MLX5DVFlowActionAttr }

// DRDomainCreate makes a domain of a device whose first port is Ethernet.
func (r *directRules) DRDomainCreate(ctx handle, typ uint32) (handle, error) {
	c, err := get[context](r.v, ctx)
	if err != nil {
		return 0, err
	}
	switch port, err := c.port(1); {
	case err != nil:
		return 0, err
	case port.LinkLayer != abi.IBV_LINK_LAYER_ETHERNET:
		return 0, syscall.EOPNOTSUPP
	case typ > abi.MLX5DV_DR_DOMAIN_TYPE_FDB:
		return 0, syscall.EINVAL
	}
	d := &drDomain{object{c: c}, typ}
	return r.v.table.add(d), nil
}

func forgotten[T any](*T) error { return nil }

// DRDomainDestroy ends a domain.
func (r *directRules) DRDomainDestroy(h handle) error { return ends(r.v, h, forgotten[drDomain]) }

// DRTableCreate returns the root table of a domain.
func (r *directRules) DRTableCreate(h handle, level uint32) (handle, error) {
	d, err := get[drDomain](r.v, h)
	if err != nil {
		return 0, err
	}
	if level > 0 {
		return 0, control.ErrNotNative
	}
	t := &drTable{object{c: d.c}, d}
	return r.v.table.add(t), nil
}

// DRTableDestroy forgets a root table.
func (r *directRules) DRTableDestroy(h handle) error { return ends(r.v, h, forgotten[drTable]) }

// DRMatcherCreate makes a matcher.
func (r *directRules) DRMatcherCreate(h handle, priority uint16, criteria uint8, mask []byte) (handle, error) {
	t, err := get[drTable](r.v, h)
	if err != nil {
		return 0, err
	}
	m := matchers{r.v}
	return m.CreateFlowMatcher(t.c.handle, &abi.MLX5DVFlowMatcherAttr{Type: normalFlow, Priority: priority,
		MatchCriteriaEnable: criteria, CompMask: abi.MLX5DV_FLOW_MATCHER_MASK_FT_TYPE, FTType: t.domain.typ}, mask)
}

// DRMatcherDestroy ends a matcher.
func (r *directRules) DRMatcherDestroy(h handle) error {
	m := matchers{r.v}
	return m.DestroyFlowMatcher(h)
}

// DRRuleCreate makes a rule.
func (r *directRules) DRRuleCreate(h handle, value []byte, actions []handle) (handle, error) {
	list := make([]abi.MLX5DVFlowActionAttr, len(actions))
	for i, a := range actions {
		a, err := get[drAction](r.v, a)
		if err != nil {
			return 0, err
		}
		list[i] = a.MLX5DVFlowActionAttr
	}
	m := matchers{r.v}
	return m.CreateFlow(h, value, list)
}

// DRRuleDestroy ends a rule.
func (r *directRules) DRRuleDestroy(h handle) error { return r.v.DestroyFlow(0, h) }

// add makes an action of a kind that matchers take, unless err is set.
func (r *directRules) add(kind uint32, value uint64, err error) (handle, error) {
	if err != nil {
		return 0, err
	}
	return r.v.table.add(&drAction{abi.MLX5DVFlowActionAttr{Type: kind, Value: value}}), nil
}

// DRActionDestroy ends an action.
func (r *directRules) DRActionDestroy(h handle) error {
	return ends(r.v, h, func(a *drAction) error {
		if a.Type == abi.MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION {
			return r.v.DestroyFlowAction(0, handle(a.Value))
		}
		return nil
	})
}

// DRActionDrop drops frames.
func (r *directRules) DRActionDrop() (handle, error) {
	return r.add(abi.MLX5DV_FLOW_ACTION_DROP, 0, nil)
}

// DRActionDefaultMiss passes frames on as if there were no rule.
func (r *directRules) DRActionDefaultMiss() (handle, error) {
	return r.add(abi.MLX5DV_FLOW_ACTION_DEFAULT_MISS, 0, nil)
}

// DRActionTag puts a tag in completions.
func (r *directRules) DRActionTag(tag uint32) (handle, error) {
	return r.add(abi.MLX5DV_FLOW_ACTION_TAG, uint64(tag&0xffffff), nil)
}

// DRActionDestQP leads frames to a raw packet QP.
func (r *directRules) DRActionDestQP(h handle) (handle, error) {
	q, err := get[qp](r.v, h)
	if err == nil && q.init.QPType != abi.IBV_QPT_RAW_PACKET {
		err = syscall.EINVAL
	}
	return r.add(abi.MLX5DV_FLOW_ACTION_DEST_IBV_QP, uint64(h), err)
}

// DRActionDestTIR leads frames to a TIR of DevX.
func (r *directRules) DRActionDestTIR(h handle) (handle, error) {
	_, err := get[obj](r.v, h)
	return r.add(abi.MLX5DV_FLOW_ACTION_DEST_DEVX, uint64(h), err)
}

// DRActionFlowCounter counts frames in a counter of DevX.
func (r *directRules) DRActionFlowCounter(h handle, offset uint32) (handle, error) {
	_, err := get[obj](r.v, h)
	kind := uint32(abi.MLX5DV_FLOW_ACTION_COUNTERS_DEVX)
	if offset != 0 {
		kind = abi.MLX5DV_FLOW_ACTION_COUNTERS_DEVX_WITH_OFFSET
	}
	n, err := r.add(kind, uint64(h), err)
	if err == nil {
		a, _ := get[drAction](r.v, n)
		a.Offset = offset
	}
	return n, err
}

// byKernel makes an action that the kernel makes.
func (r *directRules) byKernel(h handle, flags uint32,
	create func(m *matchers, ctx handle, table uint32) (handle, error)) (handle, error) {
	d, err := get[drDomain](r.v, h)
	switch {
	case err != nil:
		return 0, err
	case flags == 0:
		return 0, control.ErrNotNative
	case flags != abi.MLX5DV_DR_ACTION_FLAGS_ROOT_LEVEL:
		return 0, syscall.EINVAL
	}
	n, err := create(&matchers{r.v}, d.c.handle, d.typ)
	return r.add(abi.MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION, uint64(n), err)
}

// DRActionModifyHeader changes headers.
func (r *directRules) DRActionModifyHeader(h handle, flags uint32, actions []uint64) (handle, error) {
	return r.byKernel(h, flags, func(m *matchers, ctx handle, table uint32) (handle, error) {
		return m.CreateFlowActionModifyHeader(ctx, actions, table)
	})
}

// DRActionPacketReformat puts frames into a tunnel, or takes them out.
func (r *directRules) DRActionPacketReformat(h handle, flags, way uint32, data []byte) (handle, error) {
	return r.byKernel(h, flags, func(m *matchers, ctx handle, table uint32) (handle, error) {
		return m.CreateFlowActionPacketReformat(ctx, data, way, table)
	})
}
