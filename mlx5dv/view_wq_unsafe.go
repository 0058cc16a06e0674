package mlx5dv

import (
	"github.com/pureverbs/pureverbs/internal/control"
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/mmio"
)

// WQView is a view of the ring of a WQ, whose entries are lists of data segments. Those of a striding
// WQ begin with 16 bytes of zeros.
//
// It belongs to its ibv.WQ, which must stay open while the view is used, and is not safe for
// concurrent use.
//
// C: struct mlx5dv_rwq.
type WQView struct {
	Ring
	DoorbellRecord uintptr

	dbrec unsafe.Pointer
}

// ViewWQ returns a view of a WQ on a CQ created with ibv.DataPathRaw.
//
// C: mlx5dv_init_obj(3) with MLX5DV_OBJ_RWQ.
func ViewWQ(wq *ibv.WQ) (*WQView, error) {
	ref, dev := verbs.Ref(wq)
	c, err := view("mlx5dv view wq", "wq", "a WQ", ref, dev, wq.DataPath, control.MLX5.InitRWQ)
	if err != nil {
		return nil, err
	}
	return &WQView{Ring: Ring{Buf: memory(c.Buf, uint64(c.WQECnt)*uint64(c.Stride)), Stride: c.Stride, Count: c.WQECnt},
		DoorbellRecord: c.DBRec, dbrec: cmem.Pointer(c.DBRec)}, nil
}

// Post gives the receives that were built to the device; count is the free-running number of all
// receives built so far.
func (v *WQView) Post(count uint32) { mmio.Record(v.dbrec, bits.ReverseBytes32(count&0xffff)) }
