//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Hooks let others watch and break things. A nil field costs one comparison. They are called with the fabric's lock
// held, on the engine's thread or on that of the command that made the engine act; they must not block and must not
// call the engine. They may change ports and devices.
type Hooks struct {
	// Trace is called for everything that happens. The record is reused: copy what you keep.
	Trace func(*Record)
	// AtDoorbell is called once for each doorbell that the engine noticed, before it looks at the send queue. It and
	// those below return what goes wrong there, fault.None for nothing.
	AtDoorbell func(qp *hca.QP) fault.Kind
	// AtWQE is called once for each send WQE before it is executed; n counts those of the QP from 0.
	AtWQE func(qp *hca.QP, opcode uint8, n uint64) fault.Kind
	// AtCQE is called once for each completion before it is written. qp is nil for a CQE that is no QP's. delay, in
	// microseconds, goes with fault.CQEDelayed.
	AtCQE func(cq *hca.CQ, qp *hca.QP) (f fault.Kind, delay uint32)
}

// Kind says what a [Record] is about.
type Kind uint8

// Kinds of records; the comment names the fields that are set besides Kind, Time, PID.
const (
	KindDoorbell Kind = iota // QP, Index (blocks announced, 16 bits), N (new blocks), BlueFlame
	KindArm                  // CQ, Index (consumer index, 24 bits), SN, Solicited
	KindWQE                  // QP, Index, Opcode, N (bytes), Imm, PeerQPN; executed or about to be
	KindRecv                 // QP, SRQ, Index (entry), N (bytes that it takes); a receive is consumed
	KindRetry                // QP, Index, Syndrome (0x15 no answer, 0x16 RNR), N (tries so far)
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
	SN        uint8
	WQE       uint16
	BlueFlame bool
	Solicited bool
	Imm       uint32 // as a big-endian number: immediate, rkey to invalidate or mkey
	PeerQPN   uint32
	Syndrome  uint8
	Vendor    uint8
	State     hca.QPState
	// Raw is the bytes themselves, for a byte-exact comparison of two programs; nil if they are not known. WQE and
	// Recv: the entry as read, all DS units; CQE: the 64 bytes as written; Doorbell and Arm: the 8 bytes found in the
	// register, or all of a BlueFlame copy.
	Raw []byte
}
