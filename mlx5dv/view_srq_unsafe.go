package mlx5dv

import (
	"github.com/pureverbs/pureverbs/internal/control"
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/mmio"
)

// SRQView is a view of an SRQ's ring. Its free entries are a list from Head to Tail, linked by the
// big-endian uint16 at offset 2 of each entry. Tail itself always stays free. Data segments begin
// at offset 16.
//
// It belongs to its ibv.SRQ, which must stay open while the view is used, and is not
// safe for concurrent use.
//
// C: struct mlx5dv_srq.
type SRQView struct {
	Num            uint32 // SRQN; 0 if libmlx5 does not report it
	Buf            []byte // up to the last entry of the list
	Stride         uint32 // bytes of an entry
	Head, Tail     uint32 // as they were when the SRQ was created
	DoorbellRecord uintptr

	dbrec unsafe.Pointer
}

// ViewSRQ returns a view of an SRQ created with ibv.DataPathRaw.
//
// C: mlx5dv_init_obj(3) with MLX5DV_OBJ_SRQ.
func ViewSRQ(srq *ibv.SRQ) (*SRQView, error) {
	ref, dev := verbs.Ref(srq)
	init := func(l control.MLX5, h uintptr) (*abi.MLX5DVSRQ, error) { return l.InitSRQ(h, abi.MLX5DV_SRQ_MASK_SRQN) }
	c, err := view("mlx5dv view srq", "srq", "an SRQ", ref, dev, srq.DataPath, init)
	if err != nil {
		return nil, err
	}
	s := &SRQView{
		Buf: memory(c.Buf, uint64(max(c.Head, c.Tail)+1)*uint64(c.Stride)), Stride: c.Stride,
		Head: c.Head, Tail: c.Tail,
		DoorbellRecord: c.DBRec, dbrec: cmem.Pointer(c.DBRec),
	}
	if c.CompMask&abi.MLX5DV_SRQ_MASK_SRQN != 0 {
		s.Num = c.SRQN
	}
	return s, nil
}

// Entry returns the memory of entry i.
func (s *SRQView) Entry(i uint32) []byte {
	at := uint64(i) * uint64(s.Stride)
	if at+uint64(s.Stride) > uint64(len(s.Buf)) {
		return nil
	}
	return s.Buf[at : at+uint64(s.Stride)]
}

// Ring gives the receives that were built to the device; counter is the free-running number of all
// receives built so far.
func (s *SRQView) Ring(counter uint16) { mmio.Record(s.dbrec, bits.ReverseBytes32(uint32(counter))) }
