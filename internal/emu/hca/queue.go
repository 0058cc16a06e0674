//go:build linux

package hca

import (
	"strconv"

	"github.com/pureverbs/pureverbs/internal/emu/guest"
)

// FirstQPN is the lowest QPN of an ordinary QP; QP 0 and 1 belong to the subnet.
const FirstQPN = 0x40

// QPType is the transport, with the kernel's numbers.
type QPType uint8

// Transports.
const (
	RC        QPType = 2
	UC        QPType = 3
	UD        QPType = 4
	RawPacket QPType = 8
	XRCSend   QPType = 9
	XRCRecv   QPType = 10
	DriverQP  QPType = 255
)

func (t QPType) String() string {
	switch t {
	case RC:
		return "RC"
	case UC:
		return "UC"
	case UD:
		return "UD"
	case RawPacket:
		return "RAW_PACKET"
	case XRCSend:
		return "XRC_SEND"
	case XRCRecv:
		return "XRC_RECV"
	case DriverQP:
		return "DRIVER"
	}
	return "QPType(" + strconv.Itoa(int(t)) + ")"
}

// QPState is a QP's state, with the kernel's numbers.
type QPState uint8

// States.
const (
	Reset QPState = iota
	Init
	RTR
	RTS
	SQD
	SQE
	Err
)

func (s QPState) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "QPState(" + strconv.Itoa(int(s)) + ")"
}

var stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

// Ring is a work queue in the program's memory.
type Ring struct {
	Base  uint64 // address of entry 0
	Count uint32 // entries, a power of two; SQ: in 64-byte basic blocks
	Shift uint32 // log2 of an entry's size
}

// QP is a queue pair.
type QP struct {
	Context *Context
	PD      *PD
	Handle  uint32
	User    uint64 // the program's handle: the element of its events
	Num     uint32
	UIdx    uint32 // what CQEs carry beside the QPN: the program's index (CQE version 1) or 0
	RecvIdx uint32 // the same in those of receives, where it is the SRQN with CQE version 0
	Type    QPType
	State   QPState
	Attr    QPAttr
	SendCQ  *CQ // nil for XRC_RECV
	RecvCQ  *CQ // nil for XRC_*
	SRQ     *SRQ
	XRCD    *XRCD // XRC_RECV
	Cap     QPCap
	SigAll  bool
	Flags   uint32 // driver's creation flags (scatter to CQE, signature …: MLX5_QP_FLAG_*)

	Mem guest.Mem
	DB  uint64 // doorbell record: be32 receive counter, be32 send counter
	SQ  Ring
	RQ  Ring // Count 0: none or SRQ
	UAR *UAR

	Register int // static doorbell register, -1 for none

	mcast          [][16]byte
	AsyncDelivered uint32
	opens          int  // XRC_RECV shared by ibv_open_qp
	orphan         bool // destroyed where it was made, and open elsewhere
	Run            QPRun
}

// QPCap is what a QP was granted.
type QPCap struct {
	SendWR, RecvWR, SendSGE, RecvSGE, Inline uint32
}

// CQ is a completion queue.
type CQ struct {
	Context *Context
	Handle  uint32
	User    uint64
	Num     uint32 // CQN
	Mem     guest.Mem
	Buf     uint64
	DB      uint64 // be32 consumer index, be32 arm word
	Entries uint32 // ring entries, a power of two
	CQESize uint32 // 64 or 128
	Channel *CompChannel
	Vector  uint32
	UAR     *UAR // arming goes through offset 0x20 of this page, or of any page of the context when nil

	// moderation: announce after this many completions or this many microseconds; without either, each
	ModCount, ModPeriod uint16
	IgnoreOverrun       bool
	Delivered           uint32 // completion events put on the channel, for destroy
	AsyncDelivered      uint32
	refs                int
	Run                 CQRun
}

// SRQ is a shared receive queue.
type SRQ struct {
	Context *Context
	PD      *PD
	Handle  uint32
	User    uint64
	Num     uint32
	UIdx    uint32
	XRC     bool
	XRCD    *XRCD
	CQ      *CQ // XRC: its own CQ
	Mem     guest.Mem
	DB      uint64 // be32 counter of posted entries
	Ring    Ring   // entries begin with a 16-byte link segment
	MaxSGE  uint32
	Limit   uint32

	AsyncDelivered uint32
	refs           int
	Run            SRQRun
}
