package ibv

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// ECE holds enhanced connection establishment options: features that two devices of one vendor
// agree to use.
//
// C: struct ibv_ece.
type ECE struct {
	VendorID uint32
	Options  uint32
}

// QueryECE returns the options that the device offers after the QP was created, and those that it
// uses once the QP is in RTR. Send the former to the peer, and give SetECE what both have.
//
// C: ibv_query_ece(3).
func (qp *QP) QueryECE() (e ECE, err error) {
	err = qp.do("query ece", func() error {
		c := new(abi.ECE)
		err := qp.dev.v.QueryECE(qp.handle, c)
		if err == nil {
			e = ECE{VendorID: c.VendorID, Options: c.Options}
		}
		return explainECE(qp.dev, err)
	})
	return e, err
}

// SetECE sets the options that the QP uses from RTR on. Call it in state RESET or INIT.
//
// C: ibv_set_ece(3).
func (qp *QP) SetECE(e ECE) error {
	const op = "set ece"
	return qp.do(op, func() error {
		if s := qp.loadState(); s == StateRTR || s == StateRTS {
			return &StateError{Op: op, State: s, Need: "RESET or INIT, before Connect"}
		}
		return explainECE(qp.dev, qp.dev.v.SetECE(qp.handle, &abi.ECE{VendorID: e.VendorID, Options: e.Options}))
	})
}

func explainECE(d *Device, err error) error {
	_, errno := err.(syscall.Errno) // else the library lacks the function, which err reports
	switch {
	case errno && unsupported(err):
		return &UnsupportedError{Feature: "ECE",
			Need: "a device and a driver with options of their vendor, such as mlx5",
			Have: d.Name() + " without any; connect without ECE"}
	case errors.Is(err, errInvalid):
		return &ArgError{Arg: "ECE", Got: "refused", Want: "the VendorID that QueryECE returns, and options of its"}
	}
	return err
}
