package mlx5dv

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// QPOptions configures a QP: ibv's options, and those of mlx5 alone. The zero value selects the
// defaults.
//
// C: struct mlx5dv_qp_init_attr.
type QPOptions struct {
	ibv.QPOptions

	Flags QPCreateFlags
	DC    *DCOptions // of a QP whose Type is ibv.DCI or ibv.DCT; may be nil

	// MaxAtomic is the length of the longest atomic with masks (ibv.MaskedAtomic) that an RC, XRCSend or
	// DCI QP will post: 8, 16 or 32 bytes, or 0 for none. With MLNX_OFED 4 only QPs with MaxAtomic post
	// them; on the direct data path of other libraries all do.
	MaxAtomic int

	// DriverOps are the work requests of mlx5's own that will be posted. With them the ops data path
	// posts by the functions behind ibv_wr_*, as with SendOps.
	DriverOps DriverOps
}

const (
	rawPacketOnly = TunnelOffloaded | SelfLoopbackUnicast | SelfLoopbackMulticast
	knownQPFlags  = OutOfOrderData<<1 - 1
)

// CreateQP creates a queue pair in the state RESET; opt may be nil. The result is a QP of package
// ibv, on the data path of its CQs. With the Type ibv.DCI or ibv.DCT it is one of the dynamically
// connected transport: see DCOptions.
//
// C: mlx5dv_create_qp(3).
func CreateQP(pd *ibv.PD, send, recv *ibv.CQ, opt *QPOptions) (*ibv.QP, error) {
	const op = "mlx5dv create qp"
	if opt == nil {
		opt = &QPOptions{}
	}
	if pd == nil {
		return nil, opError(op, "", &ibv.ArgError{Arg: "pd", Got: "nil", Want: "a PD"})
	}
	dev := pd.Device()
	switch {
	case recv == nil && opt.Type == ibv.DCT:
		return nil, opError(op, dev.Name(), &ibv.ArgError{Arg: "recv CQ", Got: "nil",
			Want: "the CQ of a DCT, which needs no send CQ"})
	case send == nil && opt.Type == ibv.DCI:
		return nil, opError(op, dev.Name(), &ibv.ArgError{Arg: "send CQ", Got: "nil",
			Want: "the CQ of a DCI, which needs no recv CQ"})
	}
	if send == nil && opt.Type == ibv.DCT {
		send = recv
	} else if recv == nil && opt.Type == ibv.DCI {
		recv = send
	}
	if err := opt.check(native(dev), send); err != nil {
		return nil, opError(op, dev.Name(), err)
	}
	if verbs.Experimental(dev) {
		return createExp(op, pd, send, recv, opt)
	}
	if opt.MaxAtomic != 0 && pathOf(send) == ibv.DataPathOps {
		return nil, opError(op, dev.Name(), &ibv.UnsupportedError{Feature: "QPOptions.MaxAtomic on DataPathOps",
			Need: "CQs of the direct data path, or MLNX_OFED 4", Have: "a CQ of the data path Ops"})
	}
	lib, h, err := begin(dev, op).reach()
	if err != nil {
		return nil, err
	}
	dv := new(abi.MLX5DVQPInitAttr)
	if opt.Flags != 0 {
		dv.CompMask, dv.CreateFlags = abi.MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS, uint32(opt.Flags)
	}
	if opt.Flags&AllowScatterToCQE == 0 && verbs.KeepsOut(dev, &opt.QPOptions, send, recv) {
		dv.CompMask |= abi.MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS
		dv.CreateFlags |= uint32(DisableScatterToCQE)
	}
	ops, err := opt.sendOps(pd, pathOf(send))
	if err != nil {
		return nil, opError(op, dev.Name(), err)
	}
	ops.NoScatter = dv.CreateFlags&uint32(DisableScatterToCQE) != 0
	if opt.DriverOps != 0 {
		dv.CompMask |= abi.MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS
		dv.SendOpsFlags = uint64(opt.DriverOps)
		if opt.DriverOps&WithMkeyConfigure != 0 { // for its own sake libmlx5 makes no room before v45
			dv.SendOpsFlags |= uint64(WithMRList)
		}
	}
	create := func(pd uintptr, attr *abi.QPInitAttrEx) (uintptr, error) {
		attr.CompMask |= abi.IBV_QP_INIT_ATTR_PD
		attr.PD = pd
		qp, err := lib.CreateQP(h, attr, dv)
		return qp, opt.DriverOps.explain(err)
	}
	var qp *ibv.QP
	dc, streams, err := opt.setDC(lib, h, dev, send, dv)
	if err == nil {
		qp, err = verbs.CreateMLX5(pd, send, recv, &opt.QPOptions, dc, streams, ops, create)
	}
	if err != nil && ops.Notes != nil {
		err = errors.Join(err, ops.Notes.Close())
	}
	return qp, err
}

// pathOf returns the data path of a CQ, that of libmlx5 for none.
func pathOf(cq *ibv.CQ) ibv.DataPath {
	if cq == nil {
		return ibv.DataPathOps
	}
	path, _ := cq.DataPath()
	return path
}

func (o *QPOptions) check(native bool, send *ibv.CQ) error {
	path, f := pathOf(send), o.Flags
	notDirect := OutOfOrderData
	if !native { // keys with signatures are libmlx5's
		notDirect |= SignaturePipelining
	}
	switch {
	case o.Type == ibv.Driver:
		return &ibv.ArgError{Arg: "Type", Got: o.Type.String(), Want: "ibv.DCI or ibv.DCT"}
	case o.DC != nil:
		if err := o.checkDC(); err != nil {
			return err
		}
	}
	if err := o.checkAtomic(); err != nil {
		return err
	}
	switch {
	case f&^knownQPFlags != 0:
		return &ibv.ArgError{Arg: "Flags", Got: f.String(), Want: "those of " + knownQPFlags.String()}
	case f&DisableScatterToCQE != 0 && f&AllowScatterToCQE != 0:
		return &ibv.ArgError{Arg: "Flags", Got: f.String(), Want: "one of DisableScatterToCQE and AllowScatterToCQE"}
	case f&AllowScatterToCQE != 0 && o.Type == ibv.DCI && path != ibv.DataPathRaw:
		return &ibv.UnsupportedError{Feature: "AllowScatterToCQE on a DCI", Need: "CQs made with DataPathRaw",
			Have: fmt.Sprintf("the data path %v, which takes no result from a completion", path)}
	case f&rawPacketOnly != 0 && o.Type != ibv.RawPacket:
		return &ibv.ArgError{Arg: "Flags", Got: f.String(), Want: "these flags only on a RawPacket QP"}
	case path == ibv.DataPathDirect && f&notDirect != 0:
		return &ibv.UnsupportedError{Feature: (f & notDirect).String() + " on the direct data path",
			Need: "CQs made with DataPathOps or DataPathRaw", Have: "a CQ of the direct data path"}
	}
	return nil
}
