package ibv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// Flow is a steering rule: it leads frames that a port receives to a raw packet QP. A raw packet
// QP receives nothing without one.
//
// It belongs to its QP, which cannot be closed before it.
//
// C: struct ibv_flow.
type Flow struct {
	node
	qp     *QP
	handle uintptr
}

// FlowAttr describes a Flow to create.
//
// C: struct ibv_flow_attr and the specs after it.
type FlowAttr struct {
	Type     FlowType
	Priority int   // 0 is the highest. mlx5 has 16.
	Port     uint8 // of the device, from 1
	Flags    FlowFlags
	// Specs are matched together, from the outermost header to the innermost. Without a match a
	// rule of type FlowNormal takes every frame.
	Specs []FlowSpec
}

// CreateFlow makes a steering rule that leads to the QP, which must be of type RawPacket. A rule with
// the same matches and priority as another makes both QPs receive a copy of each frame; if what they
// do with the frames differs, the error unwraps to EEXIST. The program needs CAP_NET_RAW.
//
// C: ibv_create_flow(3).
func (qp *QP) CreateFlow(attr *FlowAttr) (*Flow, error) {
	const op = "create flow"
	dev := qp.dev
	if attr == nil {
		return nil, opError(op, qp.name, &ArgError{Arg: "attr", Got: "nil", Want: "a FlowAttr"})
	}
	c := flowCoder{dev: dev, nodes: []*node{&qp.node}}
	b, err := attr.encode(&c)
	if qp.typ != RawPacket && qp.typ != UD {
		err = errors.Join(&ArgError{Arg: "QP", Got: "of type " + qp.typ.String(), Want: "of type RawPacket"}, err)
	}
	if err != nil {
		return nil, opError(op, qp.name, err)
	}
	f := &Flow{qp: qp}
	return createAs(op, qp.name, dev.Name(), "flow", f, &f.node, func() (err error) {
		for _, at := range c.handles {
			at.put(b)
		}
		f.handle, err = dev.v.CreateFlow(dev.handle, qp.handle, b)
		return dev.explainFlow(err, attr)
	}, c.nodes...)
}

// QP returns the QP that the rule leads to.
func (f *Flow) QP() *QP { return f.qp }

// Close removes the rule.
//
// C: ibv_destroy_flow(3).
func (f *Flow) Close() error {
	dev := f.qp.dev
	return f.node.close(func() error { return dev.v.DestroyFlow(dev.handle, f.handle) })
}

// maxFlowSpecs is the number of specs that the kernel takes.
const maxFlowSpecs = 10

// encode returns the struct ibv_flow_attr with its specs.
func (a *FlowAttr) encode(c *flowCoder) ([]byte, error) {
	ports := int(c.dev.attr.PhysPortCnt)
	switch {
	case a.Type > FlowSniffer:
		c.wrong("Type", a.Type.String(), "FlowNormal, FlowAllDefault, FlowMulticastDefault or FlowSniffer")
	case a.Priority < 0:
		c.wrong("Priority", fmt.Sprint(a.Priority), "0, the highest, or more")
	case a.Priority > 1<<16-1:
		c.errs = append(c.errs, &LimitError{What: "flow priority", Asked: uint64(a.Priority), Limit: 1<<16 - 1,
			Where: "a field of 16 bits"})
	}
	if a.Port < 1 || int(a.Port) > ports {
		c.wrong("Port", fmt.Sprint(a.Port), fmt.Sprintf("a port of %s, 1 to %d", c.dev.Name(), ports))
	}
	if odd := a.Flags &^ (FlowDontTrap | FlowEgress); odd != 0 {
		c.wrong("Flags", odd.String(), "FlowDontTrap and FlowEgress")
	}
	if a.Flags&FlowEgress != 0 && a.Type != FlowNormal {
		c.wrong("Flags", "Egress with type "+a.Type.String(), "FlowEgress with FlowNormal only")
	}
	if len(a.Specs) > maxFlowSpecs {
		c.errs = append(c.errs, &LimitError{What: "flow specs", Asked: uint64(len(a.Specs)), Limit: maxFlowSpecs,
			Where: "one rule"})
	}
	head := abi.FlowAttr{Type: uint32(a.Type), Priority: uint16(a.Priority), NumOfSpecs: uint8(len(a.Specs)),
		Port:  a.Port,
		Flags: uint32(a.Flags)}
	c.b = abi.AppendSpec(nil, &head)
	for i, s := range a.Specs {
		c.at = i
		if s == nil {
			c.wrong(fmt.Sprintf("Specs[%d]", i), "nil", "a FlowSpec")
			continue
		}
		s.encode(c)
	}
	if c.matched && a.Type != FlowNormal {
		c.wrong("Specs", "a match with type "+a.Type.String(), "matches with FlowNormal only")
	}
	if err := errors.Join(c.errs...); err != nil {
		return nil, err
	}
	head.Size = uint16(len(c.b))
	copy(c.b, abi.AppendSpec(nil, &head))
	return c.b, nil
}

// explainFlow returns what a steering rule needs.
func (d *Device) explainFlow(err error, a *FlowAttr) error {
	const feature = "steering rules"
	switch {
	case errors.Is(err, syscall.EEXIST):
		return fmt.Errorf("a rule with the same matches and priority does something else with the frames: %w", err)
	case errors.Is(err, syscall.ENOMEM) && a.Priority > 15:
		return fmt.Errorf("priority %d: mlx5 has 0 to 15: %w", a.Priority, err)
	}
	return d.v.explainFrames(err, feature, UnsupportedError{Feature: feature + " of this kind", Have: d.Name(),
		Need: "a device with DeviceManagedFlowSteering that compares these fields, such as mlx5"})
}
