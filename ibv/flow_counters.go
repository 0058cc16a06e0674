package ibv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// Counters count the frames of steering rules.
//
// They belong to their Device. The way to use them on mlx5: AttachFlow with a nil Flow for each thing
// to count, then CreateFlow with FlowCount, then Read. Rules with the same Counters add up.
//
// C: struct ibv_counters.
type Counters struct {
	object
}

// CreateCounters makes Counters that count nothing yet.
//
// C: ibv_create_counters(3).
func (d *Device) CreateCounters() (*Counters, error) {
	c := &Counters{object: object{dev: d}}
	return create("create counters", d.Name(), "counters", c, &c.node, func() (err error) {
		c.handle, err = d.v.CreateCounters(d.handle)
		return d.explainCounters(err)
	}, &d.node)
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
	var err error
	switch {
	case kind > CountBytes:
		err = &ArgError{Arg: "kind", Got: kind.String(), Want: "CountPackets or CountBytes"}
	case index < 0 || index > maxCounterIndex:
		err = &ArgError{Arg: "index", Got: fmt.Sprint(index), Want: fmt.Sprintf("0 to %d", maxCounterIndex)}
	case flow != nil && flow.qp.dev != c.dev:
		err = &ArgError{Arg: "flow", Got: "one of another Device", Want: "a Flow of the same Device, or nil"}
	}
	if err != nil {
		return opError(op, c.name, err)
	}
	nodes, f := []*node{&c.node}, uintptr(0)
	if flow != nil {
		nodes, f = append(nodes, &flow.node), flow.handle
	}
	return within(op, c.name, func() error {
		attr := &abi.CounterAttachAttr{CounterDesc: uint32(kind), Index: uint32(index)}
		return c.dev.explainAttach(c.dev.v.AttachCountersPointFlow(c.dev.handle, c.handle, attr, f), flow)
	}, nodes...)
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
		return opError(op, c.name, &ArgError{Arg: "values", Got: "empty", Want: "one for each index of AttachFlow"})
	}
	var flags uint32
	if cached {
		flags = abi.IBV_READ_COUNTERS_ATTR_PREFER_CACHED
	}
	return c.do(op, func() error {
		out := make([]uint64, len(values)) // C writes to the heap: the caller's may be a stack that moves
		err := c.dev.v.ReadCounters(c.dev.handle, c.handle, out, flags)
		switch {
		case err == nil:
			copy(values, out)
		case errors.Is(err, syscall.EINVAL):
			err = fmt.Errorf("%d values are fewer than AttachFlow's indices, or no rule has the counters yet: %w",
				len(values), err)
		}
		return c.dev.explainCounters(err)
	})
}

// Close destroys the counters. It fails while a Flow uses them.
//
// C: ibv_destroy_counters(3).
func (c *Counters) Close() error { return c.destroy(c.dev.v.DestroyCounters) }

func (d *Device) explainCounters(err error) error {
	return d.explainLack(err, "counters of steering rules", "libibverbs of rdma-core v19 or later",
		"a driver and a provider with support for it, such as mlx5", "")
}
