package ibv

import (
	"fmt"
)

// MaxSGELength is the maximum length of one SGE in bytes. The field of the device has 31 bits.
const MaxSGELength = 1<<31 - 1

// SGE is a piece of registered memory.
//
// C: struct ibv_sge.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// outsideSGE is the length that marks the result of MR.SGE for an invalid range. Addr and LKey
// then hold its arguments. It is not a length that a program would use.
const outsideSGE = 1<<32 - 0x5a6e

// In such an SGE LKey holds these for a length that does not fit.
const (
	lengthNegative = 1<<32 - 1
	lengthHuge     = 1<<32 - 2
)

// tooLong returns the error of SGE number i, whose length is above MaxSGELength.
func (s *SGE) tooLong(i int) error {
	if s.Length != outsideSGE {
		return &LimitError{What: fmt.Sprintf("length of sge %d", i), Asked: uint64(s.Length), Limit: MaxSGELength,
			Where: "one sge"}
	}
	n := fmt.Sprint(s.LKey)
	switch s.LKey {
	case lengthNegative:
		n = "a negative length"
	case lengthHuge:
		n = "4 GiB or more"
	}
	return &ArgError{Arg: fmt.Sprintf("SGE %d", i), Got: fmt.Sprintf("MR.SGE(%d, %s)", int64(s.Addr), n),
		Want: fmt.Sprintf("a range inside the MR, of at most %d bytes", MaxSGELength)}
}

// SendWR is a work request for the send queue. The opcode determines which fields are used.
// PostSend reads it and does not keep it. The memory that its SGEs name belongs to the device
// until the completion.
//
// C: struct ibv_send_wr.
type SendWR struct {
	ID     uint64 // returned in WC.ID
	Opcode Opcode
	Flags  SendFlags
	SGEs   []SGE // the data to send or write, or where to put the result of a read or an atomic

	// Inline is data that is copied into the work request, in place of SGEs. It needs no MR,
	// and may be reused as soon as the call returns. At most QPCap.MaxInline bytes. With the
	// flag Inline and SGEs, as in C, the data of the SGEs is copied instead: their memory must
	// be off the Go heap or pinned, and needs no key. OpAtomicWrite: the 8 bytes to write.
	Inline []byte

	Remote         RemoteAddr // RDMA, atomics and flushes
	Imm            uint32     // OpSendImm, OpWriteImm; host order
	InvalidateRKey uint32     // OpSendInv, OpLocalInv
	CompareAdd     uint64     // the value to compare with, or to add
	Swap           uint64     // OpCompareSwap

	AH         *AH    // UD, DCI: the address of the peer
	RemoteQPN  uint32 // DCI: the number of the peer's DCT
	RemoteQKey uint32
	// RemoteSRQN is the SRQ.Num of an XRC SRQ of the peer, for an XRCSend QP. A message is delivered to that SRQ.
	// Reads, writes and atomics name one as well: its PD is that of the memory.
	RemoteSRQN uint32
	DCStream   uint16 // DCI: the stream that the work request belongs to
	DCKey      uint64 // DCI: the DCT's access key

	Bind  *BindMW     // OpBindMW: the memory window
	Flush *FlushRange // OpFlush: what to flush, at Remote
	TSO   *TSO        // OpTSO: the header of the frames, and how much of the data each gets

	Masked *MaskedAtomic // OpMaskedCompareSwap, OpMaskedFetchAdd: the operands
	Mkey   *MkeyChange   // OpDriver1: what package mlx5dv made
}

// FlushRange has the parameters of OpFlush, in addition to Remote.
//
// C: the last arguments of ibv_wr_flush.
type FlushRange struct {
	Type   FlushType
	Level  FlushLevel
	Length uint64 // bytes; not used with FlushMR
}

// TSO has the parameters of OpTSO, in addition to the data.
//
// C: the tso of struct ibv_send_wr.
type TSO struct {
	// Header is the Ethernet, IP and TCP header of the frames. The device writes lengths, sequence
	// numbers and, with the flag IPCsum, checksums. PostSend copies it.
	Header []byte
	MSS    uint16 // bytes of data in each frame
}

// MaskedAtomic has the operands of OpMaskedCompareSwap and OpMaskedFetchAdd, which mlx5 executes on Size
// bytes of the peer's memory, at a multiple of Size. The SGE, of as many bytes, receives the previous
// value. Operands are words of 8 bytes in the order of memory; the first Size/8 are used. One of 8 bytes is atomic with
// respect to other atomics of the device.
//
// RC, XRCSend and DCI QPs of the direct data path post them: rdma-core has no call for them. With
// MLNX_OFED 4, which has one, they are for QPs with mlx5dv.QPOptions.MaxAtomic. A request that a device does not
// execute ends with WCLocQPOpErr or WCRemInvReqErr.
//
// The device reports by DevX for which sizes it returns the previous value as big-endian words. UCX expects that for
// all sizes but 8. For those sizes:
//   - Poll swaps the words in the memory of the SGE, once, before it returns the completion. Until then no other work
//     request may use this memory, and after Reset or Close of the QP its content is undefined.
//   - The request must be Signaled.
//   - The SGE must be in memory of this process, or in a null MR.
//
// Without DevX atomics with masks are refused, because the order of bytes is not known. No source documents the order
// of the words of 16 and 32 bytes: that of memory is experimental. On MLNX_OFED 4 nothing is swapped:
// mlx5dv.QueryMaskedAtomics has the sizes.
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

// RecvWR is a work request for a receive queue: a buffer for one message. On a UD QP the first
// 40 bytes of the buffer are reserved for the GRH.
//
// C: struct ibv_recv_wr.
type RecvWR struct {
	ID   uint64
	SGEs []SGE
}

func lengthOf(sges []SGE) (n uint64) {
	for i := range sges {
		n += uint64(sges[i].Length)
	}
	return n
}
