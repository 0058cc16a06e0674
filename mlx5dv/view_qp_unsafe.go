package mlx5dv

import (
	"encoding/binary"
	"github.com/pureverbs/pureverbs/internal/control"
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/mmio"
)

// QPView is a view of a QP's rings, for programs that build their own WQEs.
//
// It belongs to its ibv.QP, which must stay open while the view is used: Close unmaps its memory,
// and an access then ends the process. It is not safe for concurrent use, except that one goroutine
// may post sends while another posts receives; objects that share a ThreadDomain are for one
// goroutine. The caller does everything that ibv's data path would do: it keeps track of room in
// the rings, QP states, completions and resets, which set every count and record to 0.
//
// C: struct mlx5dv_qp.
type QPView struct {
	Num uint32
	SQ  Ring
	RQ  Ring // empty with an SRQ

	DoorbellRecord uintptr // two big-endian uint32: receive count, send count
	UAR            uintptr // doorbell register; write it with RingSend or in assembly, never with sync/atomic
	BlueFlame      uint32  // largest WQE that the register accepts, in bytes; 0 if it may be shared: use a ThreadDomain
	UAROffset      int64   // offset of the register's page, for mmap of the device file

	// Numbers for raw packet QPs and for commands to the device; 0 if there is none.
	TIRN, TISN, RQN, SQN uint32

	dbrec, reg unsafe.Pointer
	start, end unsafe.Pointer
	half       *uintptr
}

// ViewQP returns a view of a QP whose CQs were created with ibv.DataPathRaw. On the other data
// paths, whose rings already have a writer, the error is ErrNotSupported.
//
// C: mlx5dv_init_obj(3) with MLX5DV_OBJ_QP.
func ViewQP(qp *ibv.QP) (*QPView, error) {
	ref, dev := verbs.Ref(qp)
	init := func(lib control.MLX5, h uintptr) (*abi.MLX5DVQP, error) {
		return lib.InitQP(h, abi.MLX5DV_QP_MASK_UAR_MMAP_OFFSET|abi.MLX5DV_QP_MASK_RAW_QP_HANDLES)
	}
	c, err := view("mlx5dv view qp", "qp", "a QP", ref, dev, qp.DataPath, init)
	if err != nil {
		return nil, err
	}
	q := &QPView{
		Num: qp.Num(), SQ: ring(c.SQ.Buf, c.SQ.WQECnt, c.SQ.Stride), RQ: ring(c.RQ.Buf, c.RQ.WQECnt, c.RQ.Stride),
		DoorbellRecord: c.DBRec, UAR: c.BF.Reg, dbrec: cmem.Pointer(c.DBRec), reg: cmem.Pointer(c.BF.Reg),
		half: verbs.NextHalf(qp),
	}
	if q.half != nil {
		q.BlueFlame = c.BF.Size
	}
	if n := len(q.SQ.Buf); n > 0 {
		q.start = unsafe.Pointer(unsafe.SliceData(q.SQ.Buf))
		q.end = unsafe.Add(q.start, n)
	}
	if c.CompMask&abi.MLX5DV_QP_MASK_UAR_MMAP_OFFSET != 0 {
		q.UAROffset = c.UARMmapOffset
	}
	if c.CompMask&abi.MLX5DV_QP_MASK_RAW_QP_HANDLES != 0 {
		q.TIRN, q.TISN, q.RQN, q.SQN = c.TIRN, c.TISN, c.RQN, c.SQN
	}
	return q, nil
}

func ring(buf uintptr, count, stride uint32) Ring {
	if count == 0 {
		return Ring{}
	}
	return Ring{Buf: memory(buf, uint64(count)*uint64(stride)), Stride: stride, Count: count}
}

// RingSend makes the device execute all WQEs that were built. Both arguments are free-running
// counts of 64-byte blocks: next is the block after the last WQE, last the block at which it
// begins. Its control segment must be complete. RingSend orders the stores to the ring, to the
// doorbell record and to the register.
func (q *QPView) RingSend(next, last uint32) {
	if q.SQ.Count == 0 {
		return
	}
	ctrl := *(*uint64)(unsafe.Add(q.start, uintptr(last&(q.SQ.Count-1))*64))
	mmio.RingSend(unsafe.Add(q.dbrec, 4), bits.ReverseBytes32(next&0xffff), q.register(), ctrl)
}

// RingSendBlueFlame is RingSend for one WQE, which begins at last. It writes the whole WQE to the
// register, which saves the device a read. If BlueFlame is 0 or less than the size of the WQE, it
// is RingSend.
func (q *QPView) RingSendBlueFlame(next, last uint32) {
	blocks := next - last
	if blocks == 0 || blocks*64 > q.BlueFlame || blocks > q.SQ.Count {
		q.RingSend(next, last)
		return
	}
	wqe := unsafe.Add(q.start, uintptr(last&(q.SQ.Count-1))*64)
	mmio.RingSendBlueFlame(unsafe.Add(q.dbrec, 4), bits.ReverseBytes32(next&0xffff), q.register(), wqe, int(blocks),
		q.start, q.end)
}

// register returns the address of the next doorbell: it alternates between the halves of a BlueFlame register.
func (q *QPView) register() unsafe.Pointer {
	if q.BlueFlame == 0 {
		return q.reg
	}
	reg := unsafe.Add(q.reg, *q.half)
	*q.half ^= uintptr(q.BlueFlame)
	return reg
}

// RingRecv gives the receives that were built to the device; next is their free-running count.
func (q *QPView) RingRecv(next uint32) {
	if q.RQ.Count != 0 {
		mmio.Record(q.dbrec, bits.ReverseBytes32(next&0xffff))
	}
}

// Control writes a control segment, the first 16 bytes of every WQE. length is the length of the
// whole WQE in units of 16 bytes.
//
// C: mlx5dv_set_ctrl_seg(3).
func (q *QPView) Control(index uint32, opcode WQEOpcode, flags WQEFlags, length uint8, imm uint32) {
	b := q.SQ.Entry(index)
	if len(b) < 16 {
		return
	}
	binary.BigEndian.PutUint32(b, index&0xffff<<8|uint32(opcode))
	binary.BigEndian.PutUint32(b[4:], q.Num<<8|uint32(length))
	binary.BigEndian.PutUint32(b[8:], uint32(flags))
	binary.BigEndian.PutUint32(b[12:], imm)
}
