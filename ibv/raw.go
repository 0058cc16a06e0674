package ibv

import (
	"fmt"
	"math"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/mlx5"
)

// RawOptions are the options of a QP of type RawPacket, which sends and receives whole Ethernet
// frames, without their check sequence. It needs CAP_NET_RAW. To bring it into use, Modify it to INIT
// with MaskPort, to RTR and to RTS without attributes; it has no peer. CreateFlow selects the frames that it receives.
// On the direct data path no other QP or WQ uses the CQ of its receives: they have the tag of their steering rule where
// others have the number of a QP.
//
// C: fields of struct ibv_qp_init_attr_ex.
type RawOptions struct {
	// StripVLAN takes the VLAN tag out of received frames. An extended CQ returns it.
	// C: IBV_QP_CREATE_CVLAN_STRIPPING.
	StripVLAN bool
	// ScatterFCS appends the frame check sequence to received frames.
	// C: IBV_QP_CREATE_SCATTER_FCS.
	ScatterFCS bool
	// MaxTSOHeader is the longest TSO.Header that will be posted. 0 means that OpTSO is not posted.
	// On mlx5 it needs the direct data path.
	MaxTSOHeader int
}

// request puts the options of o into init.
func (o *RawOptions) request(d *Device, path DataPath, typ QPType, init *abi.QPInitAttrEx) error {
	if *o == (RawOptions{}) {
		return nil
	}
	switch {
	case typ != RawPacket:
		return &ArgError{Arg: "Raw", Got: "set", Want: "nothing with type " + typ.String()}
	case o.MaxTSOHeader < 0:
		return &ArgError{Arg: "Raw.MaxTSOHeader", Got: fmt.Sprint(o.MaxTSOHeader), Want: "0 or more"}
	case o.MaxTSOHeader > math.MaxUint16:
		return &LimitError{What: "max_tso_header", Asked: uint64(o.MaxTSOHeader), Limit: math.MaxUint16,
			Where: "a field of 16 bits"}
	}
	need := func(asked bool, flag uint32, caps RawPacketCaps) error {
		if !asked {
			return nil
		}
		if ex := d.attr.Ex; ex != nil && ex.RawPacketCaps&caps == 0 {
			return &UnsupportedError{Feature: caps.String() + " of a raw packet QP",
				Need: "a device with it among its " +
					"RawPacketCaps", Have: d.Name() + " with " + ex.RawPacketCaps.String()}
		}
		init.CompMask |= abi.IBV_QP_INIT_ATTR_CREATE_FLAGS
		init.CreateFlags |= flag
		return nil
	}
	if err := need(o.StripVLAN, abi.IBV_QP_CREATE_CVLAN_STRIPPING, RawVLANStripping); err != nil {
		return err
	}
	if err := need(o.ScatterFCS, abi.IBV_QP_CREATE_SCATTER_FCS, RawScatterFCS); err != nil {
		return err
	}
	if o.MaxTSOHeader > 0 {
		if ex := d.attr.Ex; ex != nil && ex.TSOQPTypes>>RawPacket&1 == 0 {
			return &UnsupportedError{Feature: "TSO", Need: "a device with RawPacket among its TSOQPTypes",
				Have: d.Name() + " without it"}
		}
		// Where the header goes round the end of its ring, libmlx5 puts the data 32 bytes too far (rdma-core v64.0,
		// providers/mlx5/qp.c, line 647). Near that end there is room for 34 bytes; no TCP header is as short.
		if path == DataPathOps && d.mayBeMLX5() {
			return &UnsupportedError{Feature: "TSO on the ops data path", Need: "CQs of the direct data path: " +
				"libmlx5 damages frames whose header goes round the end of its ring", Have: "CQs of the ops data path"}
		}
		init.CompMask |= abi.IBV_QP_INIT_ATTR_MAX_TSO_HEADER
		init.MaxTSOHeader = uint16(o.MaxTSOHeader)
	}
	return nil
}

// mayBeMLX5 reports whether libmlx5 drives the device, also if the library is from before v22 and does not report it.
func (d *Device) mayBeMLX5() bool {
	return d.attr.VendorID == vendorMellanox && d.attr.VendorPartID >= partConnectIB || d.isMLX5()
}

const (
	vendorMellanox = 0x2c9
	partConnectIB  = 0x1011 // libmlx5's first device; those of libmlx4 are below
)

// frameHead returns how many bytes of a frame the device wants in the work request of a QP.
func (d *Device) frameHead(t QPType) int {
	if t != RawPacket {
		return 0
	}
	lib, is := d.mlx5()
	if !is {
		return 0
	}
	if none, err := lib.NoInlineHeaders(d.handle); err == nil && none {
		return 0
	}
	return mlx5.MaxFrameHead // what every device takes
}

// checkFrame reports what is wrong with a work request of a raw packet QP.
func (sq *sender) checkFrame(wr *SendWR) error {
	if wr.Flags&IPCsum != 0 && sq.qp.dev.attr.CapFlags&DeviceRawIPCsum == 0 {
		return &UnsupportedError{Feature: "checksums of a raw packet QP", Need: "a device with RawIPCsum",
			Have: sq.qp.dev.Name() + " without it"}
	}
	if wr.Opcode == OpTSO {
		return nil
	}
	n := uint64(len(wr.Inline))
	for i := range wr.SGEs {
		n += uint64(wr.SGEs[i].Length)
	}
	if n > 0 && n >= uint64(sq.frameHead) {
		return nil
	}
	want := "at least 1"
	if sq.frameHead > 0 {
		want = fmt.Sprintf("at least %d: the device wants so many in the work request", sq.frameHead)
	}
	return &ArgError{Arg: "frame", Got: fmt.Sprintf("%d bytes", n), Want: want}
}

// explainRaw explains a refusal of frames to a program that may not have them.
func explainRaw(err error) error {
	return fmt.Errorf("raw packets need CAP_NET_RAW: run as root, or setcap cap_net_raw+ep on the program: %w", err)
}
