//go:build linux

package verbs

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Commands about QPs that any way of making one has, and fields of struct mlx5_ifc_qpc_bits. The context stands at the
// same place in all commands and in query_qp's answer.
const (
	qpContext = 0xc0
	qpPath    = 0xc0 // in the context
)

func qpField(at, n int) uapi.Bits { return uapi.Bits{At: qpContext + at, Len: n} }

var (
	qpcState    = qpField(0x00, 4)
	qpcLAGPort  = qpField(0x04, 4)
	qpcType     = qpField(0x08, 8)
	qpcPathMig  = qpField(0x13, 2)
	qpcDrain    = qpField(0x25, 1)
	qpcPD       = qpField(0x28, 24)
	qpcMTU      = qpField(0x40, 3)
	qpcLogMsg   = qpField(0x43, 5)
	qpcLogRQ    = qpField(0x49, 4)
	qpcStride   = qpField(0x4d, 3)
	qpcNoSQ     = qpField(0x50, 1)
	qpcLogSQ    = qpField(0x51, 4)
	qpcUser     = qpField(0x88, 24)
	qpcRemote   = qpField(0xa8, 24)
	qpcSRAMax   = qpField(0x388, 3)
	qpcRetry    = qpField(0x38d, 3)
	qpcRNRRetry = qpField(0x390, 3)
	qpcSendPSN  = qpField(0x3c8, 24)
	qpcSendCQ   = qpField(0x3e8, 24)
	qpcRRAMax   = qpField(0x488, 3)
	qpcRead     = qpField(0x490, 1)
	qpcWrite    = qpField(0x491, 1)
	qpcAtomic   = qpField(0x492, 1)
	qpcMinRNR   = qpField(0x4a3, 5)
	qpcRecvPSN  = qpField(0x4a8, 24)
	qpcRecvCQ   = qpField(0x4e8, 24)
	qpcRecord   = qpField(0x500, 64)
	qpcQKey     = qpField(0x540, 32)
	qpcRQType   = qpField(0x565, 3)
	qpcSRQ      = qpField(0x568, 24)
	qpcHWSend   = qpField(0x5a0, 16)
	qpcSWSend   = qpField(0x5b0, 16)

	pathPKey    = qpField(qpPath+0x10, 16) // C: struct mlx5_ifc_ads_bits
	pathGlobal  = qpField(qpPath+0x28, 1)
	pathLID     = qpField(qpPath+0x30, 16)
	pathTimeout = qpField(qpPath+0x40, 5)
	pathSGID    = qpField(qpPath+0x48, 8)
	pathHops    = qpField(qpPath+0x58, 8)
	pathClass   = qpField(qpPath+0x64, 8)
	pathFlow    = qpField(qpPath+0x6c, 20)
	pathGIDHigh = qpField(qpPath+0x80, 64)
	pathGIDLow  = qpField(qpPath+0xc0, 64)
	pathUDPPort = qpField(qpPath+0x110, 16)
	pathSL      = qpField(qpPath+0x124, 4)
	pathPort    = qpField(qpPath+0x128, 8)

	qpExtends   = uapi.Bits{At: 0x40, Len: 1} // the command goes on behind its context
	qpMask      = uapi.Bits{At: 0x80, Len: 32}
	qpMoreMask  = uapi.Bits{At: 0x840, Len: 64}
	qpExtMMO    = uapi.Bits{At: 0x880 + 0x02, Len: 1} // C: struct mlx5_ifc_qpc_ext_bits
	qpExtStream = uapi.Bits{At: 0x880 + 0x10, Len: 16}
	qpExtReq    = uapi.Bits{At: 0x880 + 0x20, Len: 32}
	qpExtResp   = uapi.Bits{At: 0x880 + 0x40, Len: 32}
)

// Bits of the masks. C: MLX5_QPC_OPT_MASK_RTS2RTS_LAG_TX_PORT_AFFINITY, MLX5_QPC_OPT_MASK_INIT2INIT_DRAIN_SIGERR,
// MLX5_QPC_OPT_MASK_32_*.
const (
	optDrain   = 1 << 11
	optLAGPort = 1 << 15

	moreStream   = 1 << 0
	moreSchedule = 1 << 1
	moreUDPPort  = 1 << 2
	moreMMO      = 1 << 3
)

// States and types as a context has them. C: MLX5_QP_STATE_*, MLX5_QP_ST_*.
var (
	qpcStates = [...]uint64{hca.Reset: 0, hca.Init: 1, hca.RTR: 2, hca.RTS: 3, hca.SQE: 4, hca.SQD: 5, hca.Err: 6}
	qpcTypes  = map[hca.QPType]uint64{hca.RC: 0, hca.UC: 1, hca.UD: 2, hca.XRCSend: 3, hca.XRCRecv: 3, hca.DCI: 5,
		hca.DCT: 6}
)

const (
	migrated = 3
	noRQ     = 3 // C: MLX5_NON_ZERO_RQ and so on: what receives go to
	srqRQ    = 1
)

// logOf is the greatest power of two in n.
func logOf(n uint32) uint64 { return uint64(max(bits.Len32(n)-1, 0)) }

func devxQueryQP(d *command, o any) uapi.Status {
	qp := within[hca.QP](d, o)
	if qp == nil || qp.Type == hca.RawPacket || qp.Type == hca.DCT {
		return uapi.StatusBadResource
	}
	a := &qp.Attr
	flag := func(right hca.Access) uint64 { return uint64(bit(qp.Rights()&right != 0)) }
	for _, f := range []struct {
		at uapi.Bits
		v  uint64
	}{
		{qpcState, qpcStates[qp.State]}, {qpcLAGPort, uint64(qp.Extra.LAGPort)}, {qpcType, qpcTypes[qp.Type]},
		{qpcPathMig, migrated}, {qpcMTU, uint64(a.PathMTU)},
		{qpcLogMsg, logOf(d.ctx.Device.Config.Limits.MaxMsgSize)},
		{qpcLogRQ, logOf(qp.RQ.Count)}, {qpcNoSQ, uint64(bit(qp.SQ.Count == 0))},
		{qpcLogSQ, logOf(qp.SQ.Count)}, {qpcUser, uint64(qp.UIdx)}, {qpcRemote, uint64(a.DestQPN)},
		{qpcSRAMax, logOf(uint32(a.Reads()))}, {qpcRetry, uint64(a.RetryCnt)}, {qpcRNRRetry, uint64(a.RNRRetry)},
		{qpcSendPSN, uint64(qp.Run.PSN)}, {qpcRRAMax, logOf(uint32(a.DestReads()))},
		{qpcRead, flag(hca.AccessRemoteRead)}, {qpcWrite, flag(hca.AccessRemoteWrite)},
		{qpcAtomic, flag(hca.AccessRemoteAtomic)}, {qpcMinRNR, uint64(a.MinRNRTimer)},
		{qpcRecvPSN, uint64(qp.Run.EPSN)}, {qpcRecord, qp.DB}, {qpcQKey, uint64(a.QKey)},
		{qpcHWSend, uint64(qp.Run.Tail)}, {qpcSWSend, uint64(qp.Run.Announced)},
		{pathPKey, uint64(a.PKeyIndex)}, {pathGlobal, uint64(bit(a.AH.Global))}, {pathLID, uint64(a.AH.DLID)},
		{pathTimeout, uint64(a.Timeout)}, {pathSGID, uint64(a.AH.SGIDIndex)}, {pathHops, uint64(a.AH.HopLimit)},
		{pathClass, uint64(a.AH.TrafficClass)}, {pathFlow, uint64(a.AH.FlowLabel)},
		{pathGIDHigh, binary.BigEndian.Uint64(a.AH.DGID[:])}, {pathGIDLow, binary.BigEndian.Uint64(a.AH.DGID[8:])},
		{pathUDPPort, uint64(qp.Extra.UDPPort)}, {pathSL, uint64(a.AH.SL)}, {pathPort, uint64(a.Port)},
	} {
		f.at.Put(d.out, f.v)
	}
	if qp.RQ.Count > 0 {
		const least = 4 // log2 of the smallest receive WQE
		qpcStride.Put(d.out, uint64(qp.RQ.Shift-least))
	}
	if qp.PD != nil {
		qpcPD.Put(d.out, uint64(qp.PD.Num))
	}
	if qp.SendCQ != nil {
		qpcSendCQ.Put(d.out, uint64(qp.SendCQ.Num))
	}
	if qp.RecvCQ != nil {
		qpcRecvCQ.Put(d.out, uint64(qp.RecvCQ.Num))
	}
	switch {
	case qp.SRQ != nil:
		qpcRQType.Put(d.out, srqRQ)
		qpcSRQ.Put(d.out, uint64(qp.SRQ.Num))
	case qp.RQ.Count == 0:
		qpcRQType.Put(d.out, noRQ)
	}
	return uapi.StatusOK
}

// devxQueryDCT tells the one thing that libmlx5 asks for: data do not come in order for certain, as with QPs.
func devxQueryDCT(d *command, o any) uapi.Status {
	qp := within[hca.QP](d, o)
	if qp == nil || qp.Type != hca.DCT {
		return uapi.StatusBadResource
	}
	return uapi.StatusOK
}

// rts2rts changes a QP at work.
func rts2rts(d *command, o any) uapi.Status {
	qp := within[hca.QP](d, o)
	switch {
	case qp == nil || qp.Type == hca.RawPacket:
		return uapi.StatusBadResource
	case qp.State != hca.RTS:
		return uapi.StatusBadQPState
	}
	mask, more := qpMask.Get(d.in), qpMoreMask.Get(d.in)
	port, stream := uint8(qpcLAGPort.Get(d.in)), uint16(qpExtStream.Get(d.in))
	switch v := d.ctx.Device; {
	case mask&^optLAGPort != 0, more&^(moreStream|moreSchedule|moreUDPPort) != 0,
		mask&optLAGPort != 0 && (!bonded(v) || port == 0 || int(port) > v.Config.LAGPorts),
		more&moreUDPPort != 0 && (!ethernet(v) || qp.Type != hca.RC && qp.Type != hca.UC),
		more&moreSchedule != 0 && !d.schedulable(qp),
		more&moreStream != 0 && (qpExtends.Get(d.in) == 0 || !slices.Contains(qp.Run.BadStreams, stream)):
		return uapi.StatusBadParam
	}
	if mask&optLAGPort != 0 {
		qp.Extra.LAGPort = port
	}
	if more&moreUDPPort != 0 {
		qp.Extra.UDPPort = uint16(pathUDPPort.Get(d.in))
	}
	if more&moreStream != 0 {
		qp.ResetStream(stream)
	}
	return uapi.StatusOK
}
