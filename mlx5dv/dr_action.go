package mlx5dv

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// DRAction is something that direct rules do with frames. Many rules may share one.
//
// It belongs to its DRDomain, and to what it leads to. Close fails while rules have it.
//
// C: struct mlx5dv_dr_action.
type DRAction struct {
	node
	domain *DRDomain
}

// Close destroys the action.
//
// C: mlx5dv_dr_action_destroy(3).
func (a *DRAction) Close() error { return a.destroy(a.lib.DRActionDestroy) }

// action makes an action named what. make may enter what the action is made of.
func (d *DRDomain) action(what string, make func(c *call) (uintptr, error)) (*DRAction, error) {
	c, a := d.begin("create dr action "+what), &DRAction{domain: d}
	return create(c, a, &a.node, "dr action", func() (uintptr, error) {
		h, err := make(c)
		return h, explainDR(err, d.dev, "the action "+what)
	})
}

// action enters an action of a domain.
func (c *call) action(arg string, a *DRAction, d *DRDomain) (uintptr, error) {
	switch {
	case a == nil:
		return 0, &ibv.ArgError{Arg: arg, Got: "nil", Want: "a DRAction"}
	case a.domain != d:
		return 0, &ibv.ArgError{Arg: arg, Got: a.String() + ", of another DRDomain",
			Want: "an action of the same DRDomain"}
	}
	return a.handle, c.use(&a.node, arg)
}

// actions enters the actions of a list.
func (c *call) actions(arg string, of []*DRAction, d *DRDomain) ([]uintptr, error) {
	list, errs := make([]uintptr, len(of)), make([]error, len(of))
	for i, a := range of {
		list[i], errs[i] = c.action(fmt.Sprintf("%s[%d]", arg, i), a, d)
	}
	return list, errors.Join(errs...)
}

// onDevX makes an action of an object that was made by DevX.
func (d *DRDomain) onDevX(what string, o *DevXObject, create func(c *call, h uintptr) (uintptr, error)) (*DRAction,
	error) {
	return d.action(what, func(c *call) (uintptr, error) {
		h, err := c.devx(o)
		if err != nil {
			return 0, err
		}
		return create(c, h)
	})
}

// Drop drops frames. C: mlx5dv_dr_action_create_drop(3).
func (d *DRDomain) Drop() (*DRAction, error) {
	return d.action("drop", func(c *call) (uintptr, error) { return c.lib.DRActionDrop() })
}

// DefaultMiss passes frames on as if there were no rule.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_action_create_default_miss(3), of libmlx5 v30.
func (d *DRDomain) DefaultMiss() (*DRAction, error) {
	return d.action("default miss", func(c *call) (uintptr, error) { return c.lib.DRActionDefaultMiss() })
}

// Tag puts a tag of 24 bits in completions; in a domain of DRDomainNICRx.
// C: mlx5dv_dr_action_create_tag(3).
func (d *DRDomain) Tag(tag uint32) (*DRAction, error) {
	return d.action("tag", func(c *call) (uintptr, error) {
		if err := checkTag("tag", tag); err != nil {
			return 0, err
		}
		return c.lib.DRActionTag(tag)
	})
}

// ToQP leads frames to a raw packet QP; in a domain of DRDomainNICRx.
// C: mlx5dv_dr_action_create_dest_ibv_qp(3).
func (d *DRDomain) ToQP(qp *ibv.QP) (*DRAction, error) {
	return d.action("to QP", func(c *call) (uintptr, error) {
		if qp == nil {
			return 0, &ibv.ArgError{Arg: "qp", Got: "nil", Want: "an open QP"}
		}
		if qp.Type() != ibv.RawPacket {
			return 0, &ibv.ArgError{Arg: "qp", Got: "of type " + qp.Type().String(), Want: "of type RawPacket"}
		}
		h, err := c.useVerbs(verbs.Ref(qp))
		if err != nil {
			return 0, err
		}
		return c.lib.DRActionDestQP(h)
	})
}

// table enters a table of the domain, of the root level or of another.
func (c *call) table(t *DRTable, d *DRDomain, root bool) (uintptr, error) {
	want := "one above level 0"
	if root {
		want = "one of level 0"
	}
	switch {
	case t == nil:
		return 0, &ibv.ArgError{Arg: "table", Got: "nil", Want: "a DRTable"}
	case t.domain != d:
		return 0, &ibv.ArgError{Arg: "table", Got: t.String() + ", of another DRDomain",
			Want: "a table of the same DRDomain"}
	case (t.level == 0) != root:
		return 0, &ibv.ArgError{Arg: "table", Got: fmt.Sprintf("one of level %d", t.level), Want: want}
	}
	return t.handle, c.use(&t.node, "table")
}

// ToTable has frames go on in a table above level 0.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_action_create_dest_table(3).
func (d *DRDomain) ToTable(t *DRTable) (*DRAction, error) {
	return d.action("to table", func(c *call) (uintptr, error) {
		h, err := c.table(t, d, false)
		if err != nil {
			return 0, err
		}
		return c.lib.DRActionDestTable(h)
	})
}

// ToRootTable has frames go on in a table of level 0, at a priority.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_action_create_dest_root_table(3), of libmlx5 v42.
func (d *DRDomain) ToRootTable(t *DRTable, priority int) (*DRAction, error) {
	return d.action("to root table", func(c *call) (uintptr, error) {
		h, err := c.table(t, d, true)
		if err = errors.Join(err, checkPriority(priority)); err != nil {
			return 0, err
		}
		return c.lib.DRActionDestRootTable(h, uint16(priority))
	})
}

// fits refuses a number that is not one of bits bits.
func fits(what string, n, bits int) error {
	if n < 0 {
		return &ibv.ArgError{Arg: what, Got: fmt.Sprint(n), Want: "0 or more"}
	}
	if n > 1<<bits-1 {
		return &ibv.LimitError{What: what, Asked: uint64(n), Limit: 1<<bits - 1,
			Where: fmt.Sprintf("a field of %d bits", bits)}
	}
	return nil
}

// ToVport has frames go on at a port of the e-switch; in a domain of DRDomainFDB.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_action_create_dest_vport(3).
func (d *DRDomain) ToVport(vport int) (*DRAction, error) {
	return d.action("to vport", func(c *call) (uintptr, error) {
		if err := fits("vport", vport, 16); err != nil {
			return 0, err
		}
		return c.lib.DRActionDestVport(d.handle, uint32(vport))
	})
}

// ToIBPort has frames go on at a port of the device; in a domain of DRDomainFDB.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_action_create_dest_ib_port(3), of libmlx5 v37.
func (d *DRDomain) ToIBPort(port int) (*DRAction, error) {
	return d.action("to IB port", func(c *call) (uintptr, error) {
		if err := fits("port", port, 31); err != nil {
			return 0, err
		}
		return c.lib.DRActionDestIBPort(d.handle, uint32(port))
	})
}

// ToTIR leads frames to a TIR that was made by DevX; in a domain of DRDomainNICRx.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_action_create_dest_devx_tir(3), of libmlx5 v31.
func (d *DRDomain) ToTIR(tir *DevXObject) (*DRAction, error) {
	return d.onDevX("to TIR", tir, func(c *call, h uintptr) (uintptr, error) {
		return c.lib.DRActionDestTIR(h)
	})
}

// Count counts frames in a counter that was made by DevX, at offset in its bulk.
// C: mlx5dv_dr_action_create_flow_counter(3).
func (d *DRDomain) Count(counter *DevXObject, offset uint32) (*DRAction, error) {
	return d.onDevX("count", counter, func(c *call, h uintptr) (uintptr, error) {
		return c.lib.DRActionFlowCounter(h, offset)
	})
}

// DRDest is a destination of ToArray.
//
// Experimental: no device has run this. See docs/stability.md.
type DRDest struct {
	Action   *DRAction // where frames go
	Reformat *DRAction // what is done with them before; nil for nothing
}

// ToArray gives each of several destinations a copy. There are two at least.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_action_create_dest_array(3), of libmlx5 v32.
func (d *DRDomain) ToArray(dests ...DRDest) (*DRAction, error) {
	return d.action("to array", func(c *call) (uintptr, error) {
		var errs []error
		if len(dests) < 2 {
			errs = append(errs, &ibv.ArgError{Arg: "dests", Got: fmt.Sprintf("%d destinations", len(dests)),
				Want: "two or more"})
		}
		list := make([]control.DRDest, len(dests))
		for i, to := range dests {
			h, err := c.action(fmt.Sprintf("dests[%d].Action", i), to.Action, d)
			list[i].Dest, errs = h, append(errs, err)
			if to.Reformat != nil {
				h, err := c.action(fmt.Sprintf("dests[%d].Reformat", i), to.Reformat, d)
				list[i].Reformat, errs = h, append(errs, err)
			}
		}
		if err := errors.Join(errs...); err != nil {
			return 0, err
		}
		return c.lib.DRActionDestArray(d.handle, list)
	})
}

// rootFlag is for actions of rules in a table of level 0.
func rootFlag(root bool) uint32 {
	if root {
		return abi.MLX5DV_DR_ACTION_FLAGS_ROOT_LEVEL
	}
	return 0
}

// ModifyHeader changes headers, in rules of a table of level 0 (root) or of others.
// C: mlx5dv_dr_action_create_modify_header(3).
func (d *DRDomain) ModifyHeader(root bool, actions ...HeaderAction) (*DRAction, error) {
	return d.action("modify header", func(c *call) (uintptr, error) {
		words, err := headerActions(actions)
		if err != nil {
			return 0, err
		}
		return c.lib.DRActionModifyHeader(d.handle, rootFlag(root), words)
	})
}

// Reformat puts frames in a tunnel or takes them out, in rules of a table of level 0 (root) or of others.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_action_create_packet_reformat(3).
func (d *DRDomain) Reformat(root bool, way Reformat, data []byte) (*DRAction, error) {
	return d.action("reformat", func(c *call) (uintptr, error) {
		if err := way.check(data); err != nil {
			return 0, err
		}
		return c.lib.DRActionPacketReformat(d.handle, rootFlag(root), uint32(way), data)
	})
}

// DRMeter describes a meter. Param is a flow_meter_parameters of the device's programming manual.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_dr_flow_meter_attr.
type DRMeter struct {
	Next      *DRTable // above level 0: where frames go on
	Active    bool
	RegCIndex uint8 // the register that has the color
	Param     []byte
}

func (m *DRMeter) attr() *abi.MLX5DVDRFlowMeterAttr {
	a := &abi.MLX5DVDRFlowMeterAttr{RegCIndex: m.RegCIndex}
	if m.Active {
		a.Active = 1
	}
	return a
}

func (m *DRMeter) check() error {
	if m == nil || len(m.Param) == 0 || len(m.Param)%4 != 0 {
		return &ibv.ArgError{Arg: "Param", Got: "missing, or not of words", Want: "flow_meter_parameters"}
	}
	return nil
}

// Meter measures frames. C: mlx5dv_dr_action_create_flow_meter(3), of libmlx5 v28.
//
// Experimental: no device has run this. See docs/stability.md.
func (d *DRDomain) Meter(m *DRMeter) (*DRAction, error) {
	return d.action("meter", func(c *call) (uintptr, error) {
		if err := m.check(); err != nil {
			return 0, err
		}
		h, err := c.table(m.Next, d, false)
		if err != nil {
			return 0, err
		}
		a := m.attr()
		a.NextTable = h
		return c.lib.DRActionFlowMeter(a, m.Param)
	})
}

// ModifyMeter changes a meter: the fields of Param that a bit of fields names, by the device's numbering. Next
// stays as it is.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_action_modify_flow_meter(3).
func (a *DRAction) ModifyMeter(m *DRMeter, fields uint64) error {
	const op = "modify dr meter"
	if err := m.check(); err != nil {
		return opError(op, a.name, err)
	}
	return a.do(op, func() error {
		return explainDR(a.lib.DRActionModifyFlowMeter(a.handle, m.attr(), m.Param, be64(fields)), a.dev, "a meter")
	})
}

// be64 returns a number whose bytes in memory are v in network order.
func be64(v uint64) uint64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return binary.NativeEndian.Uint64(b[:])
}

// DRSampler describes a sampler.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5dv_dr_flow_sampler_attr.
type DRSampler struct {
	Ratio   uint32       // about one frame of so many is sampled
	Next    *DRTable     // above level 0: where all frames go on
	Actions []*DRAction  // with the samples
	Set     HeaderAction // with frames that go on; the zero value for none
}

// Sample does something with some of the frames. C: mlx5dv_dr_action_create_flow_sampler(3), of libmlx5 v32.
//
// Experimental: no device has run this. See docs/stability.md.
func (d *DRDomain) Sample(s *DRSampler) (*DRAction, error) {
	return d.action("sample", func(c *call) (uintptr, error) {
		if s == nil || s.Ratio == 0 || len(s.Actions) == 0 {
			return 0, &ibv.ArgError{Arg: "sampler", Got: "without a Ratio or Actions", Want: "both"}
		}
		h, err := c.table(s.Next, d, false)
		list, more := c.actions("Actions", s.Actions, d)
		errs := []error{err, more}
		attr := &abi.MLX5DVDRFlowSamplerAttr{SampleRatio: s.Ratio, DefaultNextTable: h}
		if s.Set != (HeaderAction{}) {
			w, err := s.Set.prm("Set")
			attr.Action, errs = w, append(errs, err)
		}
		if err := errors.Join(errs...); err != nil {
			return 0, err
		}
		return c.lib.DRActionFlowSampler(attr, list)
	})
}

// PopVLAN takes the outermost VLAN tag off. C: mlx5dv_dr_action_create_pop_vlan(3), of libmlx5 v33.
//
// Experimental: no device has run this. See docs/stability.md.
func (d *DRDomain) PopVLAN() (*DRAction, error) {
	return d.action("pop VLAN", func(c *call) (uintptr, error) { return c.lib.DRActionPopVLAN() })
}

// PushVLAN puts a VLAN tag on: the EtherType, 0x8100 or 0x88a8, and the tag.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_dr_action_create_push_vlan(3), of libmlx5 v33.
func (d *DRDomain) PushVLAN(etherType, tag uint16) (*DRAction, error) {
	return d.action("push VLAN", func(c *call) (uintptr, error) {
		if etherType != 0x8100 && etherType != 0x88a8 {
			return 0, &ibv.ArgError{Arg: "etherType", Got: fmt.Sprintf("%#x", etherType), Want: "0x8100 or 0x88a8"}
		}
		var b [4]byte
		binary.BigEndian.PutUint16(b[:], etherType)
		binary.BigEndian.PutUint16(b[2:], tag)
		return c.lib.DRActionPushVLAN(d.handle, binary.NativeEndian.Uint32(b[:]))
	})
}
