package ibv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// CompCounter counts completions of QPs that are attached to it: those that succeeded, and those that
// failed. A program that needs to know only how many there are reads it in place of completions.
//
// It belongs to its Device. A QP remains attached until it is closed. It needs rdma-core v65.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct ibv_comp_cntr.
type CompCounter struct {
	object
}

// The operations.
const (
	allCompCounterOps = CompCounterRemoteWrite<<1 - 1
)

// CompCounterCaps are the limits of a device's CompCounters.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct ibv_comp_cntr_caps.
type CompCounterCaps struct {
	MaxValue    uint64
	MaxCounters uint32
	Ops         CompCounterOps
}

// QueryCompCounters returns the limits of the device's CompCounters.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: ibv_query_comp_cntr_caps(3).
func (d *Device) QueryCompCounters() (*CompCounterCaps, error) {
	c := new(abi.CompCntrCaps)
	err := d.do("query comp counters", func() error { return d.explainCompCounter(d.v.QueryCompCntrCaps(d.handle, c)) })
	if err != nil {
		return nil, err
	}
	return &CompCounterCaps{c.MaxValue, c.MaxCounters, CompCounterOps(c.SupportedQPAttachOps)}, nil
}

// CreateCompCounter makes a counter of two zeros.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: ibv_create_comp_cntr(3).
func (d *Device) CreateCompCounter(t CompCounterType) (*CompCounter, error) {
	const op = "create comp counter"
	if t > CompCounterBytes {
		return nil, &OpError{Op: op, Object: d.Name(), Err: &ArgError{Arg: "type", Got: t.String(),
			Want: "CompCounterWRs or CompCounterBytes"}}
	}
	c := &CompCounter{object: object{dev: d}}
	return create(op, d.Name(), "comp counter", c, &c.node, func() (err error) {
		c.handle, err = d.v.CreateCompCntr(d.handle, &abi.CompCntrInitAttr{Type: uint32(t)})
		return d.explainCompCounter(err)
	}, &d.node)
}

// Device returns the device that the counter belongs to.
func (c *CompCounter) Device() *Device { return c.dev }

func (c *CompCounter) do(op string, f func() error) error {
	return c.node.do(op, func() error { return c.dev.explainCompCounter(f()) })
}

// Read returns how many completions succeeded. Changes by Set and Add may become visible a little later.
//
// C: ibv_read_comp_cntr(3).
func (c *CompCounter) Read() (n uint64, err error) {
	err = c.do("read comp counter", func() (err error) { n, err = c.dev.v.ReadCompCntr(c.handle); return err })
	return n, err
}

// ReadErrors returns how many completions failed.
//
// C: ibv_read_err_comp_cntr(3).
func (c *CompCounter) ReadErrors() (n uint64, err error) {
	err = c.do("read comp counter", func() (err error) { n, err = c.dev.v.ReadErrCompCntr(c.handle); return err })
	return n, err
}

// Set changes the number that Read returns. Completions meanwhile may be lost.
//
// C: ibv_set_comp_cntr(3).
func (c *CompCounter) Set(n uint64) error {
	return c.do("set comp counter", func() error { return c.dev.v.SetCompCntr(c.handle, n) })
}

// SetErrors changes the number that ReadErrors returns.
//
// C: ibv_set_err_comp_cntr(3).
func (c *CompCounter) SetErrors(n uint64) error {
	return c.do("set comp counter", func() error { return c.dev.v.SetErrCompCntr(c.handle, n) })
}

// Add adds to the number that Read returns.
//
// C: ibv_inc_comp_cntr(3).
func (c *CompCounter) Add(n uint64) error {
	return c.do("add to comp counter", func() error { return c.dev.v.IncCompCntr(c.handle, n) })
}

// AddErrors adds to the number that ReadErrors returns.
//
// C: ibv_inc_err_comp_cntr(3).
func (c *CompCounter) AddErrors(n uint64) error {
	return c.do("add to comp counter", func() error { return c.dev.v.IncErrCompCntr(c.handle, n) })
}

// Attach makes the counter count the completions of these operations of a QP, which is in state RESET or
// INIT. A QP can have several counters, if no two count the same operation.
//
// C: ibv_qp_attach_comp_cntr(3).
func (c *CompCounter) Attach(qp *QP, ops CompCounterOps) error {
	const op = "attach comp counter"
	var err error
	switch {
	case qp == nil:
		err = &ArgError{Arg: "qp", Got: "nil", Want: "a QP of the same Device"}
	case qp.pd.dev != c.dev:
		err = &ArgError{Arg: "qp", Got: "one of another Device", Want: "a QP of the same Device"}
	case ops == 0 || ops&^allCompCounterOps != 0:
		err = &ArgError{Arg: "ops", Got: ops.String(), Want: "bits of " + allCompCounterOps.String()}
	}
	if err != nil {
		return opError(op, c.name, err)
	}
	return within(op, c.name, func() error {
		attr := &abi.QPAttachCompCntrAttr{OpMask: uint32(ops)}
		switch err := c.dev.v.QPAttachCompCntr(qp.handle, c.handle, attr); {
		case errors.Is(err, syscall.EBUSY):
			return fmt.Errorf("the QP has a counter for some of %v: %w", ops, err)
		case errors.Is(err, syscall.EINVAL):
			return fmt.Errorf("the QP must be in RESET or INIT: %w", err)
		case unsupported(err):
			return &UnsupportedError{Feature: "counting completions of " + ops.String(),
				Need: "operations of QueryCompCounters", Have: c.dev.Name()}
		default:
			return err
		}
	}, &c.node, &qp.node)
}

// Close destroys the counter. It fails while a QP is attached, which is until the QP is closed.
//
// C: ibv_destroy_comp_cntr(3).
func (c *CompCounter) Close() error {
	return c.node.close(func() error {
		err := c.dev.v.DestroyCompCntr(c.handle)
		if errors.Is(err, syscall.EBUSY) {
			err = fmt.Errorf("close the QPs that it is attached to first: %w", err)
		}
		return err
	})
}

// explainCompCounter returns what completion counters need.
func (d *Device) explainCompCounter(err error) error {
	return explainUnsupported(err, "a completion counter", "a device with it, such as an Elastic Fabric Adapter",
		d.Name()+"; count completions in software")
}
