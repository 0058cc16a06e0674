package efadv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/bind/libefa"
	"github.com/pureverbs/pureverbs/internal/friend"
)

// verbs is the part of package ibv that is internal to this module.
var verbs = ibv.Internal.Show(friend.Mine)

func opError(op, object string, err error) error {
	var e *ibv.OpError
	if errors.As(err, &e) && e.Op == op {
		return err
	}
	return &ibv.OpError{Op: op, Object: object, Err: err}
}

// explain returns an error with the requirements of a function of libefa.
func explain(dev *ibv.Device, op, feature string, err error) error {
	if err == nil {
		return nil
	}
	if since, have, ok := bind.Missing(err); ok {
		err = &ibv.UnsupportedError{Feature: feature, Need: since, Have: have}
	} else if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		err = &ibv.UnsupportedError{Feature: feature, Need: "an Elastic Fabric Adapter that has it (DeviceAttr.Caps)",
			Have: dev.Name()}
	}
	return opError(op, dev.Name(), err)
}

// query asks libefa about the device, which every other function does first: they do not all check that it is theirs.
func query(dev *ibv.Device, op string) (lib libefa.Lib, a *abi.EFADVDeviceAttr, err error) {
	if dev == nil {
		return lib, nil, opError(op, "", &ibv.ArgError{Arg: "dev", Got: "nil", Want: "an open device"})
	}
	h, leave, err := verbs.EnterC(dev, op)
	if err != nil {
		return lib, nil, err
	}
	defer leave()
	if lib, err = libefa.Open(); err != nil {
		return lib, nil, opError(op, dev.Name(), err)
	}
	a = new(abi.EFADVDeviceAttr)
	err = lib.QueryDevice(h, a)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		err = &ibv.UnsupportedError{Feature: op, Need: "a device that libefa drives",
			Have: dev.Name() + ", which another provider drives"}
	}
	return lib, a, explain(dev, op, "a query of the device", err)
}

// nilArg reports that an object is missing.
func nilArg(op, arg string) error {
	return opError(op, "", &ibv.ArgError{Arg: arg, Got: "nil", Want: fmt.Sprintf("an open %s", arg)})
}
