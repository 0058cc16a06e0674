package mlx5dv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// DCOptions are the options of a QP of the dynamically connected transport.
//
// A DCT receives from all DCIs that know its number and key, into an SRQ, and responds to their reads, writes and
// atomics. A DCI sends to any DCT: SendWR.AH, RemoteQPN and DCKey name it. Both are brought up with Endpoint and
// Connect, to which the peer does not matter. A DCT has its number from then on.
//
//	dct, err := mlx5dv.CreateQP(pd, nil, cq, &mlx5dv.QPOptions{
//		QPOptions: ibv.QPOptions{Type: ibv.DCT, SRQ: srq}, DC: &mlx5dv.DCOptions{AccessKey: key}})
//	dci, err := mlx5dv.CreateQP(pd, cq, nil, &mlx5dv.QPOptions{QPOptions: ibv.QPOptions{Type: ibv.DCI}})
//
// A request that names no DCT, or a wrong key, gets no response: it ends with ibv.WCRetryExcErr. A failed request
// breaks the DCI and not the DCT.
//
// C: struct mlx5dv_dc_init_attr.
type DCOptions struct {
	AccessKey uint64 // DCT: the key that a DCI has to name

	// DCI: base-2 logarithm of its streams; 0 means none. Work requests of one stream
	// (SendWR.DCStream) are executed in order. An error stops its stream, whose later work requests
	// are flushed, and not the DCI, until 1<<LogErrored streams are in error.
	LogStreams uint8
	LogErrored uint8
}

func (o *QPOptions) checkDC() error {
	d := o.DC
	switch {
	case o.Type != ibv.DCI && o.Type != ibv.DCT:
		t := o.Type
		if t == 0 {
			t = ibv.RC
		}
		return &ibv.ArgError{Arg: "DC", Got: fmt.Sprintf("set on a QP of type %v", t),
			Want: "nil, or the Type ibv.DCI or ibv.DCT"}
	case o.Type == ibv.DCI && d.AccessKey != 0:
		return &ibv.ArgError{Arg: "AccessKey", Got: "set on a DCI",
			Want: "0: a DCI names the key of its peer in each work request"}
	case o.Type == ibv.DCT && (d.LogStreams|d.LogErrored) != 0:
		return &ibv.ArgError{Arg: "LogStreams", Got: "set on a DCT", Want: "0: only a DCI has streams"}
	case d.LogStreams == 0 && d.LogErrored != 0:
		return &ibv.ArgError{Arg: "LogErrored", Got: fmt.Sprintf("%d without LogStreams", d.LogErrored), Want: "0"}
	}
	return nil
}

// setDC sets the attributes of a DCI or a DCT. It reports whether the QP is one, and whether it has streams.
func (o *QPOptions) setDC(lib control.MLX5, h uintptr, dev *ibv.Device, send *ibv.CQ,
	dv *abi.MLX5DVQPInitAttr) (dc, streams bool, err error) {
	if o.Type != ibv.DCI && o.Type != ibv.DCT {
		return false, false, nil
	}
	dv.CompMask |= abi.MLX5DV_QP_INIT_ATTR_MASK_DC
	d := o.DC
	if d == nil {
		d = &DCOptions{}
	}
	if o.Type == ibv.DCT {
		dv.DCInitAttr.DCType, dv.DCInitAttr.DCTAccessKey = abi.MLX5DV_DCTYPE_DCT, d.AccessKey
		return true, false, nil
	}
	if pathOf(send) == ibv.DataPathDirect { // it takes no result of a DCI's read from a completion
		dv.CompMask |= abi.MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS
		dv.CreateFlags |= uint32(DisableScatterToCQE)
	}
	dv.DCInitAttr.DCType = abi.MLX5DV_DCTYPE_DCI
	if d.LogStreams == 0 {
		return true, false, nil
	}
	dv.CompMask |= abi.MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS
	dv.DCInitAttr.SetStreams(d.LogStreams, d.LogErrored)
	return true, true, opError("mlx5dv create qp", dev.Name(), checkStreams(lib, h, dev.Name(), d))
}

// checkStreams compares streams with what the library and the device have.
func checkStreams(lib control.MLX5, dev uintptr, name string, d *DCOptions) error {
	c := &abi.MLX5DVContext{CompMask: abi.MLX5DV_CONTEXT_MASK_DCI_STREAMS}
	if err := lib.QueryDevice(dev, c); err != nil {
		return err
	}
	most := DCIStreams{c.DCIStreamsCaps.MaxLogNumConcurent, c.DCIStreamsCaps.MaxLogNumErrored}
	switch {
	case c.CompMask&abi.MLX5DV_CONTEXT_MASK_DCI_STREAMS == 0:
		return &ibv.UnsupportedError{Feature: "streams of a DCI", Need: "libmlx5 of rdma-core v37 or later",
			Have: "an older one; use a DCI for each stream"}
	case most.MaxLogConcurrent == 0:
		return &ibv.UnsupportedError{Feature: "streams of a DCI", Need: "a device with them, such as a ConnectX-6 Dx",
			Have: name + "; use a DCI for each stream"}
	case d.LogStreams > most.MaxLogConcurrent:
		return &ibv.LimitError{What: "LogStreams", Asked: uint64(d.LogStreams), Limit: uint64(most.MaxLogConcurrent),
			Where: name + " (DeviceAttr.DCIStreams)"}
	case d.LogErrored > most.MaxLogErrored:
		return &ibv.LimitError{What: "LogErrored", Asked: uint64(d.LogErrored), Limit: uint64(most.MaxLogErrored),
			Where: name + " (DeviceAttr.DCIStreams)"}
	}
	return nil
}

// ResetDCIStream makes a stream of a DCI usable again after an error. Work requests of it that were
// posted before have completed.
//
// C: mlx5dv_dci_stream_id_reset(3).
func ResetDCIStream(qp *ibv.QP, stream uint16) error {
	const op = "mlx5dv reset dci stream"
	ref, dev := verbs.Ref(qp)
	if dev != nil && qp.Type() != ibv.DCI {
		return opError(op, dev.Name(), &ibv.ArgError{Arg: "qp", Got: "a QP of type " + qp.Type().String(),
			Want: "a DCI"})
	}
	return onObject(op, "qp", "a DCI", ref, dev, func(c *call, h uintptr) error {
		err := c.lib.DCIStreamIDReset(h, stream)
		if errors.Is(err, syscall.EINVAL) {
			err = &ibv.ArgError{Arg: "stream", Got: fmt.Sprint(stream), Want: "a stream that the DCI was made with"}
		}
		return err
	})
}
