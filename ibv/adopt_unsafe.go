package ibv

import (
	"fmt"
	"unsafe"
)

// AdoptDevice makes a Device of a struct ibv_context * that another C library of this process has
// opened and will close. Close of the Device leaves the context open: close the Device, and what was
// made on it, before its owner closes the context. Where the owner reads async events, leave
// AsyncEvent alone: each event is delivered to one reader.
//
// The context must come from the same libibverbs as this package's; Control is the way back.
func AdoptDevice(context unsafe.Pointer) (*Device, error) {
	const op = "adopt device"
	if context == nil {
		return nil, &OpError{Op: op, Err: &ArgError{Arg: "context", Got: "NULL", Want: "an open struct ibv_context"}}
	}
	v, err := firstPath()
	if err != nil {
		return nil, err
	}
	if err := v.needLibrary("a device of another C library"); err != nil {
		return nil, &OpError{Op: op, Err: err}
	}
	d, err := v.wrapContext(uintptr(context))
	if err != nil {
		return nil, err
	}
	d.adopted = true
	return d, nil
}

// AdoptPD makes a PD of a struct ibv_pd * that another C library of this process has allocated on
// the same context and will free. Close of the PD leaves it allocated.
func (d *Device) AdoptPD(pd unsafe.Pointer) (*PD, error) {
	h := uintptr(pd)
	return d.openPD("adopt pd", leaveIt, func() (uintptr, error) { return h, d.owns("pd", "struct ibv_pd", h) })
}

// AdoptMR makes an MR of a struct ibv_mr * that another C library of this process has registered in
// the PD and will deregister. addr is the address of its first byte for the device. Bytes returns
// nil. Close of the MR leaves it registered.
func (pd *PD) AdoptMR(mr unsafe.Pointer, addr uint64) (*MR, error) {
	h := uintptr(mr)
	m := &MR{pd: pd, iova: addr, access: unknownAccess, fixed: "adopted", release: leaveIt}
	return m.open("adopt mr", func() (uintptr, error) {
		if err := pd.dev.owns("mr", "struct ibv_mr", h); err != nil {
			return 0, err
		}
		is := pd.dev.v.MR(h)
		if is.PD != pd.handle {
			return 0, &ArgError{Arg: "mr", Got: "a struct ibv_mr of another PD", Want: "one of this PD"}
		}
		m.addr, m.length = is.Addr, is.Length
		return h, nil
	})
}

// leaveIt is the release of what another library will destroy.
func leaveIt(uintptr) error { return nil }

// owns checks that the C object at h, whose first field is its context, is of the Device.
func (d *Device) owns(arg, what string, h uintptr) error {
	switch {
	case h == 0:
		return &ArgError{Arg: arg, Got: "NULL", Want: "a " + what}
	case d.v.Owner(h) != d.handle:
		return &ArgError{Arg: arg, Got: fmt.Sprintf("a %s of another struct ibv_context", what),
			Want: "one of this Device's"}
	}
	return nil
}
