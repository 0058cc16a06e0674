package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/work"
)

// MaskedAtomic has the operands of OpMaskedCompareSwap and OpMaskedFetchAdd, which mlx5 executes on Size
// bytes of the peer's memory, at a multiple of Size. The SGE, of as many bytes, receives the previous
// value. Operands are words of 8 bytes in the order of memory; the first Size/8 are used. One of 8 bytes is atomic with
// respect to other atomics of the device.
//
// RC, XRCSend and DCI QPs of the direct data path post them: rdma-core has no call for them. With
// MLNX_OFED 4, which has one, they are for QPs with mlx5dv.QPOptions.MaxAtomic. A request that a device does not
// execute ends with WCLocQPOpErr or WCRemInvReqErr.
//
// C: the masked_atomics of struct ibv_exp_send_wr in MLNX_OFED 4.
type MaskedAtomic struct {
	Size uint32 // 8, 16 or 32; 0 means 8

	SwapAdd [4]uint64 // what to swap in, or to add
	// Mask has the bits to swap. For OpMaskedFetchAdd it has the last bit of each field: no carry
	// leaves a field, or a word.
	Mask        [4]uint64
	Compare     [4]uint64 // OpMaskedCompareSwap
	CompareMask [4]uint64 // the bits to compare
}

// checkMasked reports what is wrong with an atomic with masks.
func (qp *QP) checkMasked(wr *SendWR) error {
	m := wr.Masked
	if m == nil {
		return &ArgError{Arg: "Masked", Got: "nil", Want: "the operands of " + wr.Opcode.String()}
	}
	switch n := (*work.MaskedAtomic)(m).Bytes(); {
	case n != 8 && n != 16 && n != 32:
		return &ArgError{Arg: "Masked.Size", Got: fmt.Sprint(n), Want: "8, 16 or 32 bytes"}
	case len(wr.SGEs) != 1 || wr.SGEs[0].Length != n:
		return &ArgError{Arg: "SGEs", Got: describeSGEs(wr.SGEs),
			Want: fmt.Sprintf("one of %d bytes, for the previous value", n)}
	case qp.maxAtomic > 0 && n > qp.maxAtomic:
		return &LimitError{What: "Masked.Size", Asked: uint64(n), Limit: uint64(qp.maxAtomic),
			Where: "qp " + qp.name + " (mlx5dv.QPOptions.MaxAtomic)"}
	case qp.maxAtomic > 0:
		return nil
	case qp.signalAll:
		return qp.maskedInCQE(wr.Opcode, "SignalAll", "the flag Signaled instead")
	case qp.inCQE.asked:
		return qp.maskedInCQE(wr.Opcode, "mlx5dv.AllowScatterToCQE", "a QP without it")
	}
	return nil
}

// maskedInCQE is the error of a QP that takes no atomics with masks because of an option: no source documents the order
// of bytes of a previous value that is in a completion.
func (qp *QP) maskedInCQE(op Opcode, option, instead string) error {
	return &UnsupportedError{Feature: "posting " + op.String() + " on a QP with " + option,
		Need: instead + ", with which no completion carries the previous value",
		Have: "a QP whose completions may carry it, in an order of bytes that is not known"}
}

// maskedError returns the requirements of an atomic with masks.
func (qp *QP) maskedError(op Opcode) error {
	have := "a QP of the data path " + qp.path().String()
	if qp.dev.legacy {
		return &UnsupportedError{Feature: "posting " + op.String(), Need: "a QP with mlx5dv.QPOptions.MaxAtomic",
			Have: "a QP without it, on MLNX_OFED 4"}
	}
	if qp.direct != nil {
		have = "one with QPOptions.SendOps, which do not name them"
	}
	return &UnsupportedError{Feature: "posting " + op.String(), Need: "a QP of the direct data path, without SendOps",
		Have: have}
}
