package ibv

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ops"
	"github.com/pureverbs/pureverbs/internal/work"
)

// Capabilities that the kernel reports, and for which <infiniband/verbs.h> has no names.
const (
	DeviceFlushGlobal     DeviceCapFlags = 1 << 38 // C: IB_UVERBS_DEVICE_FLUSH_GLOBAL.
	DeviceFlushPersistent DeviceCapFlags = 1 << 39 // C: IB_UVERBS_DEVICE_FLUSH_PERSISTENT.
	DeviceAtomicWrite     DeviceCapFlags = 1 << 40 // C: IB_UVERBS_DEVICE_ATOMIC_WRITE.
)

// opcodes returns the set of opcodes that s names.
func (s SendOps) opcodes() uint32 { return work.SendOpsOf(uint64(s)) }

// check reports what no device can post on a QP of that type.
func (s SendOps) check(t QPType) error {
	known := s.opcodes()
	takes := opcodesOf(t)
	if bits.OnesCount64(uint64(s)) == bits.OnesCount32(known) && known&^takes == 0 {
		return nil
	}
	return &ArgError{Arg: "SendOps", Got: s.String(),
		Want: "of " + opcodeNamesOf(takes) + " on a " + t.String() + " QP"}
}

// askSendOps makes init ask for the functions of o.SendOps. On the direct data path they are not called.
func (d *Device) askSendOps(o *QPOptions, path DataPath, init *abi.QPInitAttrEx) error {
	if o.SendOps == 0 {
		return nil
	}
	if err := o.SendOps.check(o.Type); err != nil {
		return err
	}
	for _, c := range []struct {
		op  SendOps
		cap DeviceCapFlags
	}{{SendOpFlush, DeviceFlushGlobal | DeviceFlushPersistent}, {SendOpAtomicWrite, DeviceAtomicWrite}} {
		if o.SendOps&c.op == 0 {
			continue
		}
		if !d.mayHave(c.cap) {
			return &UnsupportedError{Feature: "posting " + c.op.String(), Need: "a device with " + c.cap.String() +
				" among its CapFlagsEx, such as SoftRoCE of Linux 6.3", Have: d.Name() + " without it"}
		}
		if path != DataPathOps {
			return &UnsupportedError{Feature: "posting " + c.op.String() + " on the direct data path",
				Need: "CQs made with DataPathOps", Have: "a CQ of the direct data path"}
		}
	}
	if path != DataPathOps {
		return nil
	}
	if !d.v.HasQPToQPEx() {
		return d.v.lacks("QPOptions.SendOps", "libibverbs of rdma-core v24 or later, "+
			"or a QP without SendOps, whose work requests are posted by ibv_post_send", "")
	}
	init.CompMask |= abi.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
	init.SendOpsFlags = uint64(o.SendOps)
	return nil
}

// mayHave reports whether the device has one of these capabilities, or does not report its capabilities.
func (d *Device) mayHave(any DeviceCapFlags) bool {
	return d.attr.Ex == nil || d.attr.Ex.CapFlagsEx&any != 0
}

// explainSendOps adds to a refusal by the provider what SendOps need.
func (d *Device) explainSendOps(err error, asked SendOps) error {
	var said *UnsupportedError
	if asked == 0 || !unsupported(err) || errors.As(err, &said) {
		return err
	}
	return &UnsupportedError{Feature: "posting " + asked.String() + " by ibv_wr_*",
		Need: "a provider with functions for all of these, or a QP without SendOps, whose work requests are posted " +
			"by ibv_post_send",
		Have: "the provider of " + d.Name() + ", which refused some of them"}
}

// createQP creates the C object of a QP: by create_qp_ex if init asks for what classic creation has no room for.
func (d *Device) createQP(pd uintptr, init *abi.QPInitAttrEx) (uintptr, error) {
	if init.CompMask == 0 {
		return d.v.CreateQP(pd, init)
	}
	init.CompMask |= abi.IBV_QP_INIT_ATTR_PD
	init.PD = pd
	return d.v.CreateQPEx(d.handle, init)
}

// extend makes the send queue post by the functions of struct ibv_qp_ex.
// Preconditions: the C object was created with SendOps.
func (sq *sender) extend() error {
	qp := sq.qp
	d := qp.dev
	ex, err := d.v.QPToQPEx(qp.handle)
	if err != nil {
		return fmt.Errorf("ibv_qp_to_qp_ex: %w", err)
	}
	// Up to v63 SoftRoCE's wr_set_sge_list takes all SGEs for as long as the first, and its wr_set_inline_data_list
	// sends nothing (rdma-core v44.0, providers/rxe/rxe.c).
	x := ops.Extended{QP: ex, Type: uint32(qp.typ), ClassicLists: d.softRoCE(), SRD: qp.typ == SRD}
	if qp.typ == DCI {
		if x.DC, err = sq.dcSetters(ex); err != nil {
			return err
		}
	}
	if qp.make.mlx5.Opcodes != 0 {
		if x.DV, err = sq.mlx5Ex(ex); err != nil {
			return err
		}
	}
	if err := sq.chain.Extend(x); err != nil {
		return err
	}
	if d.isMLX5() {
		sq.room = sq.chain.CountRoom(qp.cap.MaxSendWR, sq.signalAll)
	}
	return nil
}

// isMLX5 reports whether libmlx5 drives the device.
func (d *Device) isMLX5() bool {
	_, is := d.mlx5()
	return is
}

// opcodeNamesOf lists a set of opcodes.
func opcodeNamesOf(set uint32) string {
	var names []string
	for ; set != 0; set &= set - 1 {
		names = append(names, Opcode(bits.TrailingZeros32(set)).String())
	}
	return strings.Join(names, ", ")
}
