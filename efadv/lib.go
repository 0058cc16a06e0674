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
	"github.com/pureverbs/pureverbs/internal/life"
)

// verbs is the part of package ibv that is internal to this module.
var verbs = ibv.Internal.Show(friend.Mine)

var opError = verbs.OpError

// explain returns an error with the requirements of a function of libefa.
func explain(dev *ibv.Device, op, feature string, err error) error {
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
		return lib, nil, nilArg(op, "dev", "device")
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
func nilArg(op, arg, kind string) error {
	return opError(op, "", &ibv.ArgError{Arg: arg, Got: "nil", Want: fmt.Sprintf("an open %s", kind)})
}

// ask calls f with libefa and the address of an object of dev, verbs.Ref of it, while the object is open. An old
// library or adapter may lack the feature.
func ask(op, feature, kind string, ref life.Ref, dev *ibv.Device, f func(lib libefa.Lib, h uintptr) error) error {
	if dev == nil && kind != "dev" {
		return nilArg(op, kind, kind)
	}
	lib, _, err := query(dev, op)
	if err != nil {
		return err
	}
	if !ref.Object.Enter() {
		return &ibv.OpError{Op: op, Object: ref.Name, Err: ibv.ErrClosed}
	}
	defer ref.Object.Leave()
	return explain(dev, op, feature, f(lib, ref.Handle))
}

// option is an option with a flag of C's, which needs a capability.
type option struct {
	want bool
	flag uint64
	cap  DeviceCaps
}

// flagsOf returns the flags of the options of a new object.
func flagsOf(dev *ibv.Device, op, object string, a *abi.EFADVDeviceAttr, opts ...option) (flags uint64, err error) {
	for _, o := range opts {
		if !o.want {
			continue
		}
		if DeviceCaps(a.DeviceCaps)&o.cap == 0 {
			return 0, opError(op, dev.Name(), &ibv.UnsupportedError{Feature: object + " with " + o.cap.String(),
				Need: "an adapter with that among DeviceAttr.Caps", Have: dev.Name()})
		}
		flags |= o.flag
	}
	return flags, nil
}

// created returns the error of a creation by package ibv, and refused, that of libefa in it, with its requirements.
func created(dev *ibv.Device, op, object string, refused, err error) error {
	if refused == nil {
		return opError(op, dev.Name(), err)
	}
	return explain(dev, op, object, refused)
}
