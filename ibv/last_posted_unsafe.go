package ibv

import (
	"encoding/binary"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/mlx5"
)

// rings are the queues of a QP, as mlx5dv describes them.
type rings struct {
	sq, rq  []byte
	stride  int
	records []byte // receive word, send word
}

// ringsOf returns the rings of a QP, without its receive queue if it has none.
func ringsOf(v *abi.MLX5DVQP, receives bool) (r rings) {
	r.records = cmem.Slice[byte](v.DBRec, 8)
	if v.SQ.WQECnt > 0 && v.SQ.Stride == 64 {
		r.sq = cmem.Slice[byte](v.SQ.Buf, int(v.SQ.WQECnt)*64)
	}
	if receives && v.RQ.WQECnt > 0 {
		r.stride = int(v.RQ.Stride)
		r.rq = cmem.Slice[byte](v.RQ.Buf, int(v.RQ.WQECnt)*r.stride)
	}
	return r
}

func (r *rings) sent() uint16     { return uint16(binary.BigEndian.Uint32(r.records[4:])) }
func (r *rings) received() uint16 { return uint16(binary.BigEndian.Uint32(r.records)) }

// recvOf returns r as the type that users fill.
func recvOf(r *mlx5.RecvWR) RecvWR { return *(*RecvWR)(unsafe.Pointer(r)) }
