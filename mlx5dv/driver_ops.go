package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/level"
)

const (
	withMkey = WithMRInterleaved | WithMRList | WithMkeyConfigure
	allOps   = withMkey | WithRawWQE | WithMemcpy
)

// sendOps checks o.DriverOps and returns what package ibv has to know of them.
func (o *QPOptions) sendOps(pd *ibv.PD, path ibv.DataPath) (s ibv.MLX5SendOps, err error) {
	dev := pd.Device()
	typ, ops := o.Type, o.DriverOps
	if typ == 0 {
		typ = ibv.RC
	}
	takes := WithRawWQE
	switch typ {
	case ibv.RC:
		takes = allOps
	case ibv.DCI:
		takes |= WithMemcpy
	case ibv.DCT:
		takes = 0
	}
	switch {
	case ops&^takes != 0:
		return s, &ibv.ArgError{Arg: "DriverOps", Got: ops.String(),
			Want: fmt.Sprintf("of %v on a QP of type %v", takes, typ)}
	case path == ibv.DataPathDirect && ops&WithRawWQE != 0:
		return s, &ibv.UnsupportedError{Feature: "RawWQE on the direct data path",
			Need: "CQs made with DataPathOps, or with DataPathRaw to write all WQEs",
			Have: "CQs of the direct data path"}
	case path == ibv.DataPathOps && ops&WithRawWQE != 0 && verbs.HasFault(dev, level.RawOpcode):
		return s, verbs.Without(dev, "RawWQE on the ops data path",
			"a libmlx5 that tells other work requests of the queue from it", "v39")
	}
	if ops&withMkey != 0 {
		s.Opcodes |= 1 << ibv.OpDriver1
	}
	if ops&WithRawWQE != 0 {
		s.Opcodes |= 1 << ibv.OpRawWQE
	}
	s.MkeySetup = ops&WithMkeyConfigure != 0
	s.ScatterToCQE = o.Flags&AllowScatterToCQE != 0
	if ops&WithMemcpy == 0 {
		return s, nil
	}
	s.Opcodes |= 1 << ibv.OpMemcpy
	attr, err := QueryDevice(dev)
	if err != nil {
		return s, err
	}
	if s.MostCopy = attr.MaxWRMemcpy; s.MostCopy == 0 {
		return s, &ibv.UnsupportedError{Feature: "Memcpy",
			Need: "a device with DeviceAttr.MaxWRMemcpy, such as a ConnectX-6 Dx, and libmlx5 of rdma-core v37 or " +
				"later",
			Have: dev.Name() + " without it"}
	}
	if path == ibv.DataPathDirect {
		const notes = 64
		s.Notes, err = pd.AllocMR(notes, ibv.LocalWrite, nil)
	}
	return s, err
}

// explain returns what an older library lacks, if it refused a QP with these operations.
func (o DriverOps) explain(err error) error {
	if o == 0 {
		return err
	}
	need := "libmlx5 of rdma-core v24 or later, and v36 for MkeyConfigure and RawWQE"
	return verbs.ExplainUnsupported(err, "a QP with "+o.String(), need, "one that refused it")
}

// RawWQE returns a work request that posts a WQE as it is: its control segment has its length, its QP, and whether it
// gives a completion, whose opcode is then ibv.WCDriver2. libmlx5 writes its index. The QP needs WithRawWQE. The result
// refers to wqe.
//
// C: mlx5dv_wr_raw_wqe.
func RawWQE(id uint64, wqe []byte) ibv.SendWR {
	wr := ibv.SendWR{ID: id, Opcode: ibv.OpRawWQE, Inline: wqe}
	if len(wqe) >= 16 && WQEFlags(wqe[11])&WQESignaled != 0 {
		wr.Flags = ibv.Signaled
	}
	return wr
}

// Memcpy returns a work request that has the device copy local memory. Both SGEs have the same length, at
// most DeviceAttr.MaxWRMemcpy. Its completion is of the opcode ibv.WCDriver3. The QP needs WithMemcpy, and must be in
// RTS although nothing is sent to its peer.
//
// C: mlx5dv_wr_memcpy.
func Memcpy(id uint64, flags ibv.SendFlags, to, from ibv.SGE) ibv.SendWR {
	return ibv.SendWR{ID: id, Opcode: ibv.OpMemcpy, Flags: flags, SGEs: []ibv.SGE{to, from}}
}
