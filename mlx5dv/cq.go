package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// CQOptions configures a CQ: ibv's options, and those of mlx5 alone. The zero value selects the
// defaults.
//
// C: struct mlx5dv_cq_init_attr.
type CQOptions struct {
	ibv.CQOptions

	EntrySize int  // bytes of a completion, 64 or 128; 0 is libmlx5's default, 64
	Padding   bool // pads each completion to its full 128 bytes; needs CQE128Padding

	// Compression lets the device write several completions as one, in one of these formats
	// (DeviceAttr.CQECompression), which saves bandwidth of PCIe. They cost more to poll, have no
	// times of their own, and the CQ cannot be resized. It needs ibv.DataPathDirect, or
	// ibv.DataPathRaw with a caller that expands them.
	Compression CQEFormats

	// UntriedCompression permits compressed completions of 128 bytes and of the receives of an SRQ on DataPathDirect.
	// No source shows what an adapter writes there, and no adapter has shown it: they may be wrong. rdmaperf selftest
	// uses it.
	UntriedCompression bool
}

// CreateCQ creates a CQ for at least cqe completions; opt may be nil. The result is a CQ of package
// ibv, on the data path that opt selects.
//
// C: mlx5dv_create_cq(3).
func CreateCQ(dev *ibv.Device, cqe int, opt *CQOptions) (*ibv.CQ, error) {
	const op = "mlx5dv create cq"
	if opt == nil {
		opt = &CQOptions{}
	}
	lib, _, err := begin(dev, op).reach()
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*ibv.CQ, error) { return nil, opError(op, dev.Name(), err) }
	dv := new(abi.MLX5DVCQInitAttr)
	switch opt.EntrySize {
	case 0:
	case 64, 128:
		dv.CompMask |= abi.MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE
		dv.CQESize = uint16(opt.EntrySize)
	default:
		return fail(&ibv.ArgError{Arg: "EntrySize", Got: fmt.Sprint(opt.EntrySize), Want: "64 or 128 bytes, or 0"})
	}
	if opt.Padding {
		if opt.EntrySize != 128 {
			return fail(&ibv.ArgError{Arg: "Padding", Got: fmt.Sprintf("with entries of %d bytes", opt.EntrySize),
				Want: "EntrySize 128"})
		}
		dv.CompMask |= abi.MLX5DV_CQ_INIT_ATTR_MASK_FLAGS
		dv.Flags = abi.MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD
	}
	if opt.Compression != 0 {
		if err := opt.checkCompression(dev); err != nil {
			return fail(err)
		}
		dv.CompMask |= abi.MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE
		dv.CQECompResFormat = uint8(opt.Compression)
	}
	create := func(h uintptr, attr *abi.CQInitAttrEx) (uintptr, error) { return lib.CreateCQ(h, attr, dv) }
	cq, err := verbs.CreateCQ(dev, cqe, &opt.CQOptions, create)
	if err == nil {
		verbs.SetEntries(cq, opt.EntrySize, uint32(opt.Compression), opt.UntriedCompression)
	}
	return cq, err
}

// checkCompression refuses a compression that the device does not have, or that no reader would expand: libmlx5 takes
// the first entry of a block for a completion with a payload (rdma-core v44.0, providers/mlx5/cq.c:287 and 383).
func (o *CQOptions) checkCompression(dev *ibv.Device) error {
	const feature = "compression of completions"
	f := o.Compression
	if f&(f-1) != 0 || f > CQEChecksumStride {
		return &ibv.ArgError{Arg: "Compression", Got: f.String(), Want: "one format"}
	}
	if times := o.Fields & (ibv.FieldTimestamp | ibv.FieldWallClock); times != 0 {
		return &ibv.ArgError{Arg: "Fields", Got: times.String() + " with Compression",
			Want: "no times: completions of a block have that of the first one"}
	}
	path, err := verbs.ChoosePath(dev, &o.CQOptions)
	if err != nil {
		return err
	}
	if path == ibv.DataPathOps {
		return &ibv.UnsupportedError{Feature: feature,
			Need: "DataPathDirect, or DataPathRaw with a caller that reads the ring",
			Have: "DataPathOps: libmlx5's poll does not expand them"}
	}
	attr, err := QueryDevice(dev)
	switch {
	case err != nil:
		return err
	case attr.CQECompression.MaxEntries == 0 || attr.CQECompression.Formats&f == 0:
		return &ibv.UnsupportedError{Feature: feature, Need: "a device with the format " + f.String(),
			Have: fmt.Sprintf("%s, with the formats %v", dev.Name(), attr.CQECompression.Formats)}
	case o.EntrySize == 128 && attr.Flags&CQE128Compression == 0:
		return &ibv.UnsupportedError{Feature: feature + " of 128 bytes", Need: "EntrySize 64",
			Have: dev.Name() + ", without CQE128Compression"}
	case o.EntrySize == 128 && path == ibv.DataPathDirect && !o.UntriedCompression:
		return &ibv.UnsupportedError{Feature: feature + " of 128 bytes",
			Need: "EntrySize 64, or UntriedCompression on an adapter that is to be tried",
			Have: "a format that no adapter has shown"}
	}
	return nil
}
