package ibv

import "fmt"

// MaxSGELength is the most bytes that one SGE names. The device's field has 31 bits.
const MaxSGELength = 1<<31 - 1

// SGE is a piece of registered memory.
//
// C: struct ibv_sge.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// outsideSGE is the length of what MR.SGE returns for a range that cannot be. Addr and
// LKey then say what it was asked for. It is no length that somebody would write.
const outsideSGE = 1<<32 - 0x5a6e

// What LKey says then of a length that it cannot hold.
const (
	lengthNegative = 1<<32 - 1
	lengthHuge     = 1<<32 - 2
)

// tooLong is the error of SGE number i, whose length is above MaxSGELength.
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
		Want: fmt.Sprintf("a range inside of the MR, of at most %d bytes", MaxSGELength)}
}

// SendWR is a work request for the send queue. Which fields count depends on
// the opcode. It is read while PostSend runs and not kept; the memory that its
// SGEs name is the device's until the completion.
//
// C: struct ibv_send_wr.
type SendWR struct {
	ID     uint64 // comes back in WC.ID
	Opcode Opcode
	Flags  SendFlags
	SGEs   []SGE // what is sent or written; where a read or an atomic puts its result

	// Inline is data that is copied into the work request, in place of SGEs.
	// It needs no MR and may be reused at once. At most QPCap.MaxInline bytes.
	// (With the flag Inline and SGEs the data is copied from there instead, as
	// in C: their memory must be off the Go heap or pinned, and needs no key.)
	Inline []byte

	Remote         RemoteAddr // RDMA and atomics
	Imm            uint32     // OpSendImm, OpWriteImm; host order
	InvalidateRKey uint32     // OpSendInv, OpLocalInv
	CompareAdd     uint64     // what to compare with, or to add
	Swap           uint64     // OpCompareSwap

	AH         *AH // UD: the way to the peer
	RemoteQPN  uint32
	RemoteQKey uint32
}

// RecvWR is a work request for a receive queue: a buffer for one message. On a
// UD QP the first 40 bytes of the buffer are for the GRH.
//
// C: struct ibv_recv_wr.
type RecvWR struct {
	ID   uint64
	SGEs []SGE
}
