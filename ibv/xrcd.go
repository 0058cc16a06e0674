package ibv

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// XRCD is an XRC domain: XRC SRQs and the receiving QPs by which peers reach them. A sending QP
// of type XRCSend names an SRQ of the domain in each work request, so that one connection
// between two machines serves all processes that share the domain.
//
// It belongs to its Device. Close fails while QPs or SRQs use it.
//
// C: struct ibv_xrcd.
type XRCD struct {
	object
}

// OpenXRCD opens an XRC domain. With a file, all processes that open the same file share the
// domain; flags are os.O_CREATE, to create the domain if no process has it open, and os.O_EXCL, to fail if one has.
// Without a file the domain is new, and only this Device has it. The file may be closed afterwards.
//
// A device has XRC if DeviceAttr.CapFlags has DeviceXRC. SoftRoCE does not: the error is
// ErrNotSupported.
//
// C: ibv_open_xrcd(3).
func (d *Device) OpenXRCD(file *os.File, flags int) (*XRCD, error) {
	const op = "open xrcd"
	if odd := flags &^ (os.O_CREATE | os.O_EXCL); odd != 0 {
		return nil, opError(op, d.Name(), &ArgError{Arg: "flags", Got: fmt.Sprintf("%#x", flags),
			Want: "os.O_CREATE, os.O_EXCL or 0"})
	}
	attr := &abi.XRCDInitAttr{CompMask: abi.IBV_XRCD_INIT_ATTR_FD | abi.IBV_XRCD_INIT_ATTR_OFLAGS, FD: -1,
		OFlags: int32(flags)}
	x := &XRCD{object: object{dev: d}}
	return create(op, d.Name(), "xrcd", x, &x.node, func() (err error) {
		open := func(fd uintptr) {
			attr.FD = int32(fd)
			x.handle, err = d.v.OpenXRCD(d.handle, attr)
		}
		if file == nil {
			open(^uintptr(0))
		} else if conn, e := file.SyscallConn(); e != nil {
			return e
		} else if e := conn.Control(open); e != nil {
			return e
		}
		return d.explainXRCD(err, flags) // verbs do not report how many the device has
	}, &d.node)
}

func (d *Device) explainXRCD(err error, flags int) error {
	switch {
	case errors.Is(err, syscall.EAGAIN) && flags&os.O_CREATE == 0:
		return fmt.Errorf("nobody has a domain of this file open, and flags lack os.O_CREATE: %w", err)
	case errors.Is(err, syscall.EINVAL) && flags&os.O_EXCL != 0:
		return fmt.Errorf("somebody has the domain of this file open, and flags have os.O_EXCL: %w", err)
	}
	return d.explainXRC("an XRC domain", err)
}

// explainXRC returns what XRC needs.
func (d *Device) explainXRC(what string, err error) error {
	if !errors.Is(err, control.ErrNoOp) && !unsupported(err) {
		return err
	}
	if e := d.v.needLibrary(what); e != nil {
		return e
	}
	have := d.Name() + ", whose driver or provider lacks XRC; use RC QPs with an SRQ for each process"
	if d.attr.CapFlags&DeviceXRC != 0 {
		have = d.Name() + ", whose provider lacks XRC"
	}
	return &UnsupportedError{Feature: what, Need: "a device with DeviceXRC, such as mlx5", Have: have}
}

// Device returns the device that the domain belongs to.
func (x *XRCD) Device() *Device { return x.dev }

// Close closes the domain. Its objects in other processes stay.
//
// C: ibv_close_xrcd(3).
func (x *XRCD) Close() error { return x.destroy(x.dev.v.CloseXRCD) }

// CreateQP makes a receiving QP, of type XRCRecv, in state RESET. It has no queues and no CQs:
// messages are delivered to the SRQ of the domain that they name, and complete on that SRQ's CQ. Connect it with an
// XRCSend QP. The QP lives until all that opened it have closed it.
//
// C: ibv_create_qp_ex(3) with IBV_QPT_XRC_RECV.
func (x *XRCD) CreateQP() (*QP, error) {
	return x.makeQP("create qp", x.dev.v.DestroyQP, func() (uintptr, error) {
		return x.dev.v.CreateQPEx(x.dev.handle, &abi.QPInitAttrEx{QPType: abi.IBV_QPT_XRC_RECV,
			CompMask: abi.IBV_QP_INIT_ATTR_XRCD, XRCD: x.handle})
	})
}

// OpenQP opens the receiving QP of this number, which another process, or another Device of this
// one, made in the same domain. Closing it does not end the QP for others. The state is
// StateUnknown until Query.
//
// C: ibv_open_qp(3).
func (x *XRCD) OpenQP(num uint32) (*QP, error) {
	if num > max24 {
		return nil, &OpError{Op: "open qp", Object: x.name, Err: &LimitError{What: "qpn", Asked: uint64(num),
			Limit: max24, Where: "a 24-bit field"}}
	}
	destroy := x.dev.v.DestroyQP
	if x.dev.isMLX5() {
		// mlx5_destroy_qp frees a doorbell record that an opened QP does not have, and crashes (rdma-core v44.0,
		// providers/mlx5/dbrec.c:162). This way the C object's memory is lost.
		destroy = x.dev.v.CmdDestroyQP
	}
	return x.makeQP("open qp", destroy, func() (uintptr, error) {
		const mask = abi.IBV_QP_OPEN_ATTR_NUM | abi.IBV_QP_OPEN_ATTR_XRCD | abi.IBV_QP_OPEN_ATTR_TYPE
		h, err := x.dev.v.OpenQP(x.dev.handle, &abi.QPOpenAttr{CompMask: mask, QPNum: num, XRCD: x.handle,
			QPType: abi.IBV_QPT_XRC_RECV})
		if errors.Is(err, syscall.EINVAL) {
			err = &ArgError{Arg: "qpn", Got: fmt.Sprintf("%#x", num), Want: "an XRCRecv QP of this domain"}
		}
		return h, err
	})
}

func (x *XRCD) makeQP(op string, destroy func(qp uintptr) error, maker func() (uintptr, error)) (*QP, error) {
	return value(&x.node, op, func() (*QP, error) {
		d := x.dev
		h, err := maker()
		if err != nil {
			return nil, d.explainXRC("an XRCRecv QP", err)
		}
		qp := newQP(d, h, XRCRecv, qpMaker{Pair: d.pair(nil, destroy)}, "an XRCRecv QP has no queues")
		qp.xrcd = x
		qp.finish(&x.node)
		return qp, nil
	})
}
