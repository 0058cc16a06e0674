package ibv

import (
	"os"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/work"
)

func cqConfig(v *abi.MLX5DVCQ, qps *mlx5.Table) *mlx5.CQConfig {
	return &mlx5.CQConfig{Num: v.CQN, Buf: cmem.Pointer(v.Buf), Entries: v.CQECnt, Size: v.CQESize,
		DBRec: cmem.Pointer(v.DBRec), UAR: cmem.Pointer(v.CQUAR), QPs: qps}
}

func qpConfig(v *abi.MLX5DVQP, qp *QP, signalAll bool) (sq *mlx5.SQConfig, rq *mlx5.RQConfig) {
	if v.SQ.WQECnt != 0 {
		sq = &mlx5.SQConfig{
			Buf: cmem.Pointer(v.SQ.Buf), Blocks: v.SQ.WQECnt, DBRec: cmem.Pointer(v.DBRec), Reg: cmem.Pointer(v.BF.Reg),
			MaxWR: uint32(qp.cap.MaxSendWR), SignalAll: signalAll, MaxInline: qp.cap.MaxInline,
			Form: qp.form(), FrameHead: uint8(qp.sq.frameHead),
			Opcodes: plainOf(qp.typ) & qp.sq.ops,
		}
		// QPs that write to the same BlueFlame register at once would mix their WQEs.
		if td := qp.pd.td; td != nil && !shutUpBF() {
			sq.BlueFlame, sq.Half = v.BF.Size, &td.nextHalf
			sq.InlineBF = os.Getenv("MLX5_POST_SEND_PREFER_BF") == "0"
		}
	}
	if qp.srq == nil && qp.typ != XRCSend && v.RQ.WQECnt != 0 {
		rq = &mlx5.RQConfig{Buf: cmem.Pointer(v.RQ.Buf), WQEs: v.RQ.WQECnt, Stride: v.RQ.Stride,
			DBRec: cmem.Pointer(v.DBRec), MaxSGE: qp.cap.MaxRecvSGE}
	}
	return sq, rq
}

// form describes the parts of the QP's send WQEs that do not depend on the opcode.
func (qp *QP) form() mlx5.Form {
	switch qp.typ {
	case UD:
		return mlx5.FormDatagram
	case DCI:
		return mlx5.FormDC
	case XRCSend:
		return mlx5.FormXRC
	case RawPacket:
		return mlx5.FormFrame
	}
	return mlx5.FormConnected
}

// shutUpBF reports whether MLX5_SHUT_UP_BF turns BlueFlame off, as libmlx5 reads it (rdma-core
// v44.0, providers/mlx5/mlx5.c:684).
func shutUpBF() bool {
	v, set := os.LookupEnv("MLX5_SHUT_UP_BF")
	return set && v != "0"
}

func srqConfig(v *abi.MLX5DVSRQ, maxSGE int) *mlx5.SRQConfig {
	// The buffer holds a power of two of WQEs, and the free list ends at or before the last.
	n := uint32(1)
	for n <= max(v.Head, v.Tail) {
		n <<= 1
	}
	return &mlx5.SRQConfig{Buf: cmem.Pointer(v.Buf), Stride: v.Stride, MaxSGE: maxSGE, Head: v.Head, Tail: v.Tail,
		WQEs: n, DBRec: cmem.Pointer(v.DBRec)}
}

func wqConfig(v *abi.MLX5DVRWQ, maxSGE int) *mlx5.RQConfig {
	return &mlx5.RQConfig{Buf: cmem.Pointer(v.Buf), WQEs: v.WQECnt, Stride: v.Stride, DBRec: cmem.Pointer(v.DBRec),
		MaxSGE: maxSGE}
}

// A completion of the rings has the layout of WC, so that Poll fills the caller's slice in place, and work requests and
// briefs have the same layout in both engines as in this package: see TestLayouts.

// firstWC is where wcs begins.
func firstWC(wcs []WC) *mlx5.WC { return (*mlx5.WC)(unsafe.Pointer(unsafe.SliceData(wcs))) }

// mlx5WCs returns wcs as the type that the ring writes.
func mlx5WCs(wcs []WC) []mlx5.WC { return unsafe.Slice(firstWC(wcs), len(wcs)) }

// packed returns the memory of wcs as that of as many WCs, one behind the other.
func packed(wcs []WCEx) []WC {
	return unsafe.Slice((*WC)(unsafe.Pointer(unsafe.SliceData(wcs))), len(wcs))
}

// unpack moves the first n WCs of packed(wcs) to where they belong.
func unpack(wcs []WCEx, n int) {
	from := packed(wcs)
	for i := n - 1; i >= 0; i-- {
		wc := from[i]
		wcs[i] = WCEx{WC: wc}
	}
}

func workBriefs(list []brief) []work.Brief {
	return unsafe.Slice((*work.Brief)(unsafe.Pointer(unsafe.SliceData(list))), len(list))
}

// request returns wr as the type that the engines use.
func request(wr *SendWR) *work.SendWR { return (*work.SendWR)(unsafe.Pointer(wr)) }

func mlx5Recvs(wrs []RecvWR) []mlx5.RecvWR {
	return unsafe.Slice((*mlx5.RecvWR)(unsafe.Pointer(unsafe.SliceData(wrs))), len(wrs))
}

// first returns the first work request of wrs.
func first(wrs []SendWR) *work.SendWR { return request(unsafe.SliceData(wrs)) }

// firstRecv is where wrs begins.
func firstRecv(wrs []RecvWR) *mlx5.RecvWR {
	return (*mlx5.RecvWR)(unsafe.Pointer(unsafe.SliceData(wrs)))
}
