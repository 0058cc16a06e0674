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

	// Compression lets the device write several completions as one, in one of these formats. It
	// needs ibv.DataPathRaw: the caller reads the ring.
	Compression CQEFormats
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
	lib, _, leave, err := enter(dev, op)
	if err != nil {
		return nil, err
	}
	leave()
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
		path, err := verbs.ChoosePath(dev, &opt.CQOptions)
		if err != nil {
			return fail(err)
		}
		if path != ibv.DataPathRaw {
			return fail(&ibv.UnsupportedError{Feature: "compression of completions",
				Need: "DataPathRaw, with a caller that reads the ring",
				Have: fmt.Sprintf("the data path %v, which does not expand them", path)})
		}
		if f := opt.Compression; f&(f-1) != 0 || f > CQEChecksumStride {
			return fail(&ibv.ArgError{Arg: "Compression", Got: f.String(), Want: "one format"})
		}
		dv.CompMask |= abi.MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE
		dv.CQECompResFormat = uint8(opt.Compression)
	}
	create := func(h uintptr, attr *abi.CQInitAttrEx) (uintptr, error) { return lib.CreateCQ(h, attr, dv) }
	return verbs.CreateCQ(dev, cqe, &opt.CQOptions, create)
}
