//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// Hooks let others watch and break things. A nil field costs one comparison. They are called with the fabric's lock
// held, on the engine's thread or on that of the command that made the engine act; they must not block and must not
// call the engine. They may change ports and devices.
type Hooks struct {
	// Trace is called for everything that happens. The record is reused: copy what you keep.
	Trace func(*Record)
	// AtDoorbell is called once for each doorbell that the engine noticed, before it looks at the send queue. It
	// returns FaultNone or FaultLost.
	AtDoorbell func(qp *hca.QP) Fault
	// AtWQE is called once for each send WQE before it is executed; n counts those of the QP from 0. It returns
	// FaultNone, FaultRNR … FaultOrder.
	AtWQE func(qp *hca.QP, opcode uint8, n uint64) Fault
	// AtCQE is called once for each completion before it is written. qp is nil for a CQE that is no QP's. It returns
	// FaultNone, FaultOwner … FaultCQError; delay, in microseconds, goes with FaultDelay.
	AtCQE func(cq *hca.CQ, qp *hca.QP) (f Fault, delay uint32)
}

// Fault is an injected fault.
type Fault uint8

// Faults.
const (
	FaultNone    Fault = iota
	FaultRNR           // WQE: the responder answers RNR NAK, once; the QP's retry rules apply
	FaultRetry         // WQE: completes with transport retry counter exceeded
	FaultAccess        // WQE: the responder answers NAK remote access error
	FaultFlush         // WQE: the QP goes to ERR before it: it and all after it are flushed
	FaultBitFlip       // WQE: the first payload bit arrives flipped
	FaultQPFatal       // WQE: the QP goes to ERR with event QP_FATAL
	FaultBind          // WQE: a bind or invalidation is refused; nothing else is
	FaultPage          // WQE: the receive that it finds in an SRQ is given up; it takes the next one
	FaultOrder         // WQE: it takes the second receive of a queue, and the next message the first
	FaultOwner         // CQE: written with the wrong owner bit
	FaultLost          // CQE: never written; doorbell: not seen
	FaultDelay         // CQE: it and all after it in the CQ come later
	FaultCQError       // CQE: the CQ breaks: event CQ_ERR, no more completions
)

// Kind says what a [Record] is about.
type Kind uint8

// Kinds of records; the comment names the fields that are set besides Kind, Time, PID.
const (
	KindDoorbell Kind = iota // QP, Index (blocks announced, 16 bits), N (new blocks), BlueFlame
	KindArm                  // CQ, Index (consumer index, 24 bits), SN, Solicited
	// QP, Index, Opcode, DS, Flags, N (bytes), SGEs, Inline, Remote, RKey, Imm, PeerQPN, SRQN; executed or about to be
	KindWQE
	KindRecv  // QP, SRQ, Index (entry), N (bytes that it takes); a receive is consumed
	KindRetry // QP, Index, Syndrome (0x15 no answer, 0x16 RNR), N (tries so far)
	// CQ, QP, Index (producer index), Opcode (CQE's), WQEOpcode, WQE, N (byte_cnt), Syndrome, Vendor, Imm, Solicited
	KindCQE
	KindEvent // CQ, Index (producer index): a completion event was put on the channel
	KindState // QP, State (new): by the engine or by a command
)

// Record is one thing that happened, in the terms of the formats; nothing is formatted.
type Record struct {
	Kind      Kind
	Time      uint64 // Clock
	PID       int
	QP        *hca.QP
	CQ        *hca.CQ
	SRQ       *hca.SRQ
	Index     uint32
	N         uint64
	Opcode    uint8
	WQEOpcode uint8
	Flags     uint8 // fm_ce_se
	DS        uint8 // 16-byte units
	SGEs      int
	SN        uint8
	WQE       uint16
	Inline    bool
	BlueFlame bool
	Solicited bool
	Remote    uint64
	RKey      uint32
	Imm       uint32 // as a big-endian number: immediate, rkey to invalidate or mkey
	PeerQPN   uint32
	SRQN      uint32
	Syndrome  uint8
	Vendor    uint8
	State     hca.QPState
	// Raw is the bytes themselves, for a byte-exact comparison of two programs; nil if they are not known. WQE and
	// Recv: the entry as read, all DS units; CQE: the 64 bytes as written; Doorbell and Arm: the 8 bytes found in the
	// register, or all of a BlueFlame copy.
	Raw []byte
}
