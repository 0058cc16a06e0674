package ibv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/life"
)

// Counters count the frames of steering rules.
//
// They belong to their Device. The way to use them on mlx5: AttachFlow with a nil Flow for each thing
// to count, then CreateFlow with FlowCount, then Read. Rules with the same Counters add up.
//
// C: struct ibv_counters.
type Counters struct {
	node
	dev    *Device
	handle uintptr
}

// CreateCounters makes Counters that count nothing yet.
//
// C: ibv_create_counters(3).
func (d *Device) CreateCounters() (*Counters, error) {
	const op = "create counters"
	if err := d.enter(op); err != nil {
		return nil, err
	}
	defer d.leave()
	h, err := d.v.CreateCounters(d.handle)
	if err != nil {
		return nil, &OpError{Op: op, Object: d.Name(), Err: d.explainCounters(err)}
	}
	c := &Counters{dev: d, handle: h}
	c.node.initNumbered("counters", d.Name(), &d.node)
	life.Watch(c, &c.life)
	return c, nil
}

// maxCounterIndex is the number of values that mlx5 returns (rdma-core v44.0,
// providers/mlx5/verbs.c, mlx5_attach_counters_point_flow).
const maxCounterIndex = 1<<16 - 1

// AttachFlow makes the value number index of Read count something. flow is nil for the rules that
// are created later with FlowCount, as mlx5 wants it: once a rule has the Counters, the error
// unwraps to EBUSY.
//
// C: ibv_attach_counters_point_flow(3).
func (c *Counters) AttachFlow(kind CounterKind, index int, flow *Flow) error {
	const op = "attach counters"
	switch {
	case kind > CountBytes:
		return &OpError{Op: op, Object: c.name, Err: &ArgError{Arg: "kind", Got: kind.String(),
			Want: "CountPackets or CountBytes"}}
	case index < 0 || index > maxCounterIndex:
		return &OpError{Op: op, Object: c.name, Err: &ArgError{Arg: "index", Got: fmt.Sprint(index),
			Want: fmt.Sprintf("0 to %d", maxCounterIndex)}}
	case flow != nil && flow.qp.dev != c.dev:
		return &OpError{Op: op, Object: c.name, Err: &ArgError{Arg: "flow", Got: "one of another Device",
			Want: "a Flow of the same Device, or nil"}}
	}
	nodes := []*node{&c.node}
	if flow != nil {
		nodes = append(nodes, &flow.node)
	}
	if err := enterAll(op, nodes...); err != nil {
		return err
	}
	defer leaveAll(nodes...)
	var f uintptr
	if flow != nil {
		f = flow.handle
	}
	attr := &abi.CounterAttachAttr{CounterDesc: uint32(kind), Index: uint32(index)}
	if err := c.dev.v.AttachCountersPointFlow(c.dev.handle, c.handle, attr, f); err != nil {
		return &OpError{Op: op, Object: c.name, Err: c.dev.explainAttach(err, flow)}
	}
	return nil
}

func (d *Device) explainAttach(err error, flow *Flow) error {
	switch {
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("a rule has these counters already; attach before CreateFlow: %w", err)
	case flow != nil && unsupported(err) && !errors.Is(err, control.ErrNoOp):
		return &UnsupportedError{Feature: "counters of a rule that is there already",
			Need: "AttachFlow with a nil Flow, and then CreateFlow with FlowCount", Have: d.Name()}
	}
	return d.explainCounters(err)
}

// Read stores the counts in values, by the indices of AttachFlow. It asks the device, unless cached
// allows a value that may be some time old. values must have room for the highest index.
//
// C: ibv_read_counters(3).
func (c *Counters) Read(values []uint64, cached bool) error {
	const op = "read counters"
	if len(values) == 0 {
		return &OpError{Op: op, Object: c.name, Err: &ArgError{Arg: "values", Got: "empty",
			Want: "one for each index of AttachFlow"}}
	}
	if err := c.enter(op); err != nil {
		return err
	}
	defer c.leave()
	var flags uint32
	if cached {
		flags = abi.IBV_READ_COUNTERS_ATTR_PREFER_CACHED
	}
	out := make([]uint64, len(values)) // C writes to the heap: the caller's may be a stack that moves
	if err := c.dev.v.ReadCounters(c.dev.handle, c.handle, out, flags); err != nil {
		if errors.Is(err, syscall.EINVAL) {
			err = fmt.Errorf("%d values are fewer than AttachFlow's indices, or no rule has the counters yet: %w",
				len(values), err)
		}
		return &OpError{Op: op, Object: c.name, Err: c.dev.explainCounters(err)}
	}
	copy(values, out)
	return nil
}

// Close destroys the counters. It fails while a Flow uses them.
//
// C: ibv_destroy_counters(3).
func (c *Counters) Close() error {
	return c.node.close(func() error { return c.dev.v.DestroyCounters(c.dev.handle, c.handle) })
}

func (d *Device) explainCounters(err error) error {
	const feature = "counters of steering rules"
	switch {
	case errors.Is(err, control.ErrNoOp):
		return d.v.lacks(feature, "libibverbs of rdma-core v19 or later", "")
	case unsupported(err):
		return &UnsupportedError{Feature: feature, Need: "a driver and a provider with support for it, such as mlx5",
			Have: d.Name() + " without it"}
	}
	return err
}
