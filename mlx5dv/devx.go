package mlx5dv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
)

// DevX passes commands to the device's firmware. A command and its answer are big-endian records of
// the device's programming reference manual; both begin with a header of 16 bytes. The kernel
// checks the opcode, and which object a command is about; the rest is between the program and the
// device. DevX needs a kernel and a device with it. With libmlx5 from before v29 a device that librdmacm
// opened has no DevX.

// DevXCommand carries out a command that belongs to no object, such as QUERY_HCA_CAP. out is room
// for the answer and is overwritten. If the device refuses, the error is a *CommandError.
//
// C: mlx5dv_devx_general_cmd(3).
func DevXCommand(dev *ibv.Device, in, out []byte) error {
	c := begin(dev, "mlx5dv devx command")
	return c.do(func() error {
		return command(dev, in, out, func() error { return c.lib.DevXGeneralCmd(c.handle, in, out) })
	})
}

// Sizes of a command and of an answer.
const (
	commandHeader = 16
	mostCommand   = math.MaxUint16
)

// command has do send in to dev, and explains its error.
func command(dev *ibv.Device, in, out []byte, do func() error) error {
	for _, b := range []struct {
		name string
		n    int
	}{{"in", len(in)}, {"out", len(out)}} {
		switch {
		case b.n < commandHeader:
			return &ibv.ArgError{Arg: b.name, Got: fmt.Sprintf("%d bytes", b.n), Want: "at least 16"}
		case b.n > mostCommand:
			return &ibv.LimitError{What: b.name, Asked: uint64(b.n), Limit: mostCommand, Where: "uverbs"}
		}
	}
	clear(out)
	err := do()
	if err == nil {
		return nil
	}
	e := &CommandError{Opcode: binary.BigEndian.Uint16(in), Err: err}
	if e.Status = CommandStatus(out[0]); e.Status != 0 {
		e.Syndrome = binary.BigEndian.Uint32(out[4:])
		return e
	}
	if why := withoutDevX(dev, err, "DevX"); why != nil {
		return why
	}
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM) {
		return e
	}
	return explainDevX(dev, err)
}

// explainDevX adds the requirements of DevX to an error of a call that needs it.
func explainDevX(dev *ibv.Device, err error) error {
	if why := withoutDevX(dev, err, "DevX"); why != nil {
		return why
	}
	return verbs.ExplainUnsupported(err, "DevX", "a kernel and a device with it", "a device that was opened without")
}

// withoutDevX returns an *ibv.UnsupportedError if a feature that needs DevX failed because an old libmlx5 has opened
// dev without it, otherwise nil.
func withoutDevX(dev *ibv.Device, err error, feature string) error {
	for _, e := range []error{syscall.EINVAL, syscall.EPERM, syscall.EOPNOTSUPP, syscall.EPROTONOSUPPORT} {
		if !errors.Is(err, e) {
			continue
		}
		if why := verbs.WhyNoDevX(dev); why != nil {
			return &ibv.UnsupportedError{Feature: feature, Have: why.Error(),
				Need: "a device with DevX that ibv.Open opened, or libmlx5 of rdma-core v29 or later"}
		}
	}
	return nil
}

// CommandError is a command that the device or the kernel refused.
type CommandError struct {
	Opcode uint16
	// Status and Syndrome are the device's. Kernels before 6.0 pass no status on; 0 is also what the
	// kernel's own refusal has.
	Status   CommandStatus
	Syndrome uint32 // which check failed, by the device's own numbering
	Err      error  // an errno
}

func (e *CommandError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("command %#x: the device answers %v, syndrome %#x", e.Opcode, e.Status, e.Syndrome)
	}
	return fmt.Sprintf("command %#x: %v; the kernel refuses commands that are not for this call or this object, "+
		"and all if the device was opened without DevX", e.Opcode, e.Err)
}

// Unwrap returns the errno.
func (e *CommandError) Unwrap() error { return e.Err }
