package mlx5dv

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/pureverbs/pureverbs/ibv"
)

// AtomicSizes is a set of lengths in bytes, one bit for each: 8|16 are atomics of 8 and of 16 bytes.
type AtomicSizes uint32

// MaskedAtomicCaps describes the atomics with masks (ibv.MaskedAtomic) that a device executes.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: struct mlx5_ifc_atomic_caps_bits; struct ibv_exp_ext_atomics_params and struct ibv_exp_masked_atomic_params of
// MLNX_OFED 4.
type MaskedAtomicCaps struct {
	Sizes AtomicSizes // of RC and XRCSend QPs
	// BigEndian are the lengths whose previous value comes as big-endian words. The direct data path swaps them.
	BigEndian AtomicSizes
	MaxInline int // bytes of an operand
}

// QueryMaskedAtomics returns the atomics with masks that the device reports by DevX, or MLNX_OFED 4 of it.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: QUERY_HCA_CAP by mlx5dv_devx_general_cmd; ibv_exp_query_device of MLNX_OFED 4.
func QueryMaskedAtomics(dev *ibv.Device) (*MaskedAtomicCaps, error) {
	const op = "query masked atomics"
	if dev == nil {
		return nil, opError(op, "", &ibv.ArgError{Arg: "dev", Got: "nil", Want: "an open device"})
	}
	if !verbs.Experimental(dev) {
		s, err := verbs.MaskedAtomics(dev, op)
		if err != nil {
			return nil, opError(op, dev.Name(), verbs.ExplainUnsupported(err, "asking for atomics with masks",
				"DevX, or the experimental verbs of "+haveOFED4, dev.Name()))
		}
		sizes := AtomicSizes(s.QP)
		return &MaskedAtomicCaps{Sizes: sizes, BigEndian: sizes & AtomicSizes(s.BigEndian),
			MaxInline: 1 << bits.Len32(s.QP) >> 1}, nil
	}
	ext, masked, err := verbs.ExpAtomics(dev, op)
	if err != nil {
		return nil, opError(op, dev.Name(), verbs.ExplainUnsupported(err, "asking for atomics with masks",
			"a device with them, and the experimental verbs of "+haveOFED4, dev.Name()))
	}
	return &MaskedAtomicCaps{
		Sizes:     AtomicSizes(ext.LogAtomicArgSizes | masked.MaskedLogAtomicArgSizes),
		BigEndian: AtomicSizes(masked.MaskedLogAtomicArgSizesNetworkEndianness),
		MaxInline: 1 << min(max(ext.LogMaxAtomicInline, masked.LogMaxAtomicInline), 16),
	}, nil
}

// haveAtomics compares atomics of up to n bytes with the device's capabilities in MLNX_OFED 4.
func haveAtomics(dev *ibv.Device, n int) error {
	c, err := QueryMaskedAtomics(dev)
	switch {
	case errors.Is(err, ibv.ErrNotSupported):
		return &ibv.UnsupportedError{Feature: "QPOptions.MaxAtomic", Need: "a device that tells of atomics with masks",
			Have: dev.Name() + " by " + haveOFED4}
	case err != nil:
		return err
	case c.Sizes&AtomicSizes(n) == 0:
		return &ibv.UnsupportedError{Feature: fmt.Sprintf("atomics with masks of %d bytes", n),
			Need: "a device with them, or a smaller QPOptions.MaxAtomic",
			Have: fmt.Sprintf("%s with a set of sizes of %#x (QueryMaskedAtomics)", dev.Name(), uint32(c.Sizes))}
	}
	return nil
}

// checkAtomic reports what is wrong with MaxAtomic on any device.
func (o *QPOptions) checkAtomic() error {
	t := o.Type
	if t == 0 {
		t = ibv.RC
	}
	switch {
	case o.MaxAtomic == 0:
		return nil
	case o.MaxAtomic != 8 && o.MaxAtomic != 16 && o.MaxAtomic != 32:
		return &ibv.ArgError{Arg: "MaxAtomic", Got: fmt.Sprint(o.MaxAtomic), Want: "8, 16, 32, or 0 for none"}
	case t != ibv.RC && t != ibv.XRCSend && t != ibv.DCI:
		return &ibv.ArgError{Arg: "MaxAtomic", Got: "set on a QP of type " + t.String(),
			Want: "0, or one of RC, XRCSend and DCI"}
	}
	return nil
}
