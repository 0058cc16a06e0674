package mlx5dv

import (
	"context"
	"github.com/pureverbs/pureverbs/internal/control"
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/mmio"
)

// CQView is a view of a CQ's ring, for programs that read completions themselves.
//
// It belongs to its ibv.CQ, which must stay open while the view is used. It is not
// safe for concurrent use, except Events and Wait.
//
// C: struct mlx5dv_cq.
type CQView struct {
	Num            uint32
	Buf            []byte
	Entries        uint32  // a power of two
	EntrySize      uint32  // 64 or 128 bytes; of 128, the second half is the CQE
	DoorbellRecord uintptr // two big-endian uint32: consumer index, arming
	UAR            uintptr // page of the arming register

	cq         *ibv.CQ
	buf        unsafe.Pointer // the CQE in entry 0
	log        uint8
	dbrec, uar unsafe.Pointer
}

// ViewCQ returns a view of a CQ created with ibv.DataPathRaw. On the other data paths, whose rings
// already have a reader, the error is ErrNotSupported.
//
// C: mlx5dv_init_obj(3) with MLX5DV_OBJ_CQ.
func ViewCQ(cq *ibv.CQ) (*CQView, error) {
	ref, dev := verbs.Ref(cq)
	c, err := view("mlx5dv view cq", "cq", "a CQ", ref, dev, cq.DataPath, control.MLX5.InitCQ)
	if err != nil {
		return nil, err
	}
	q := &CQView{
		Num: c.CQN, Buf: memory(c.Buf, uint64(c.CQECnt)*uint64(c.CQESize)), Entries: c.CQECnt, EntrySize: c.CQESize,
		DoorbellRecord: c.DBRec, UAR: c.CQUAR,
		cq: cq, buf: cmem.Pointer(c.Buf), log: uint8(bits.TrailingZeros32(c.CQECnt)), dbrec: cmem.Pointer(c.DBRec),
		uar: cmem.Pointer(c.CQUAR),
	}
	if c.CQESize == 128 {
		q.buf = unsafe.Add(q.buf, 64)
	}
	return q, nil
}

const armRegister = 0x20

// Entry returns the 64 bytes of completion ci, a free-running count, or nil if the device has not
// written them yet. It orders later reads after the device's writes.
// C: struct mlx5_cqe64.
func (q *CQView) Entry(ci uint32) []byte {
	p := unsafe.Add(q.buf, uintptr(ci&(q.Entries-1))*uintptr(q.EntrySize))
	own := uint8(bits.ReverseBytes64(mmio.LoadCQE(unsafe.Add(p, 56))))
	if own>>4 == 0xf || own&1 != uint8(ci>>q.log)&1 {
		return nil
	}
	return unsafe.Slice((*byte)(p), 64)
}

// Consumed gives the entries before ci back to the device.
func (q *CQView) Consumed(ci uint32) { mmio.Consumed(q.dbrec, bits.ReverseBytes32(ci&0xffffff)) }

// Arm requests one event for the next completion after the first ci, or with solicitedOnly for the
// next that is solicited or failed. Check the ring after Arm: a completion may have arrived before
// it.
func (q *CQView) Arm(ci uint32, solicitedOnly bool) {
	rec := q.Events()&3<<28 | ci&0xffffff
	if solicitedOnly {
		rec |= 1 << 24
	}
	mmio.ArmCQ(unsafe.Add(q.dbrec, 4), bits.ReverseBytes32(rec), unsafe.Add(q.uar, armRegister),
		bits.ReverseBytes64(uint64(rec)<<32|uint64(q.Num)))
}

// Events returns the number of events so far.
func (q *CQView) Events() uint32 { return q.cq.Events() }

// Wait waits until there have been more than seen events, ctx ends or the CQ is closed.
func (q *CQView) Wait(ctx context.Context, seen uint32) error {
	return q.cq.WaitEvent(ctx, seen)
}
