// Package ofed is the control path of libibverbs where that may be the one of MLNX_OFED 4: package libibverbs, with the
// experimental verbs for what that library has in no other way.
package ofed

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/bind/libibverbs"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/loader"
)

// Verbs is libibverbs of any release.
type Verbs struct {
	libibverbs.Lib
	lib bind.Library
}

// Open opens the library, once.
func Open() (Verbs, error) {
	l, err := libibverbs.Open()
	if err != nil {
		return Verbs{}, err
	}
	lib, err := bind.Open(loader.IBVerbs)
	return Verbs{l, lib}, err
}

const (
	need = "libibverbs of rdma-core or MLNX_OFED 5"
	have = "MLNX_OFED 4"
)

// keys is the error of a library without memory windows and without the invalidation of keys.
var keys = &control.Lack{Need: need, Have: have}

// standard are the fields that every completion has.
const standard = abi.IBV_WC_EX_WITH_BYTE_LEN | abi.IBV_WC_EX_WITH_IMM | abi.IBV_WC_EX_WITH_QP_NUM |
	abi.IBV_WC_EX_WITH_SRC_QP | abi.IBV_WC_EX_WITH_SLID | abi.IBV_WC_EX_WITH_SL | abi.IBV_WC_EX_WITH_DLID_PATH_BITS

// Context describes an open device.
func (v Verbs) Context(ctx uintptr) control.Context {
	c := v.Lib.Context(ctx)
	if abi.Legacy(ctx) {
		c.Keys, c.PlainFields = keys, standard
	}
	return c
}

// QueryRTValuesEx reads the clock.
func (v Verbs) QueryRTValuesEx(ctx uintptr, to *abi.ValuesEx) error {
	if !abi.Legacy(ctx) {
		return v.Lib.QueryRTValuesEx(ctx, to)
	}
	e := new(abi.ExpValues)
	if err := v.queryValues(ctx, abi.IBV_EXP_VALUES_HW_CLOCK, e); err != nil {
		return err
	}
	to.CompMask, to.RawClock.Sec, to.RawClock.Nsec = 0, 0, int64(e.HWClock)
	if e.CompMask&abi.IBV_EXP_VALUES_HW_CLOCK != 0 {
		to.CompMask = abi.IBV_VALUES_MASK_RAW_CLOCK
	}
	return nil
}

// Experimental reports whether the device is driven by MLNX_OFED 4.
func (v Verbs) Experimental(ctx uintptr) bool { return abi.Legacy(ctx) }

// ExpAtomics returns the atomics with masks of a device.
func (v Verbs) ExpAtomics(ctx uintptr) (ext abi.ExpExtAtomicsParams, masked abi.ExpMaskedAtomicParams, err error) {
	const ask = abi.IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS | abi.IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS
	a := &abi.ExpDeviceAttr{CompMask: ask}
	if err := v.queryDevice(ctx, a); err != nil {
		return ext, masked, err
	}
	if a.CompMask&ask == 0 {
		return ext, masked, control.ErrNoOp
	}
	return a.ExtAtom, a.MaskedAtomic, nil
}

// unsupported reports whether err means that the library or the kernel lacks a verb.
func unsupported(err error) bool {
	for _, e := range []error{errors.ErrUnsupported, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EPROTONOSUPPORT,
		syscall.ENOTTY} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
