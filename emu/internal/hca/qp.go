//go:build linux

package hca

import (
	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// FirstQPN is the lowest QPN of an ordinary QP; QP 0 and 1 belong to the subnet.
const FirstQPN = 0x40

// QP is a queue pair.
type QP struct {
	// Written by create_qp.
	Held
	PD       *PD
	Num      uint32
	UIdx     uint32 // what CQEs carry beside the QPN: the program's index (CQE version 1) or 0
	RecvIdx  uint32 // the same in those of receives, where it is the SRQN with CQE version 0
	Type     QPType
	SendCQ   *CQ // nil for XRC_RECV
	RecvCQ   *CQ // nil for XRC_*
	SRQ      *SRQ
	DC       DC
	Frames   Frames
	Cap      QPCap
	SigAll   bool
	Flags    uint32 // driver's creation flags (scatter to CQE, signature …: MLX5_QP_FLAG_*)
	Mem      guest.Mem
	DB       uint64 // doorbell record, which the program writes: be32 receive counter, be32 send counter
	SQ       Ring
	RQ       Ring // Count 0: none or SRQ
	UAR      *UAR
	Register int // static doorbell register, -1 for none

	// Written by modify_qp.
	State QPState // and by the engine: to ERR, SQE and SQD
	Attr  QPAttr

	Known QPState // written by modify_qp and query_qp: the state as the driver knows it

	Extra QPExtra // written by commands of DevX

	uses qpUses

	// Written by the engine.
	Run QPRun
}

// Frames is how a QP or a WQ receives frames.
type Frames struct {
	Offloads uint32   // kernel's creation flags (RAW_PACKET: ScatterFCS, StripVLAN)
	Striding Striding // of a WQ
	RSS      *RSS     // of a QP that has no queues, and spreads frames among WQs; else nil
}

// Striding is how a receive of a WQ holds several frames, each in strides of its own. Count 0: it does not.
type Striding struct {
	Log    uint32 // of the bytes of a stride
	Count  uint32 // strides of a receive
	Indent uint64 // bytes into the first stride that a frame begins
}

// RSS is how a QP spreads frames.
type RSS struct {
	Queues   []*QP // those of the WQs in its table
	Key      []byte
	Function uint8
	Fields   uint64
}

// QPExtra is what a program sets of a QP by DevX.
type QPExtra struct {
	UDPPort uint16 // of RoCE v2: the source port that the program chose, or 0
	LAGPort uint8  // of a bond: the port that it sends from, from 1 on; also by create_qp
	MayCopy bool   // memory
	// DrainSigErr moves the QP to SQD, with an event, when a signature is wrong.
	DrainSigErr bool
}

// qpUses is who keeps a QP.
type qpUses struct {
	mcast  []group
	opens  int      // XRC_RECV shared by ibv_open_qp
	orphan bool     // destroyed where it was made, and open elsewhere
	xrcd   *XRCDRef // by which the QP was made
}

// group is a multicast group that a QP is attached to.
type group struct {
	gid [16]byte
	lid uint16
}

// QPEngine is what an engine learns of QPs.
type QPEngine interface {
	QPCreated(*QP)
	// QPLeaves comes before a QP is reset or destroyed: doorbells that were rung before the command arrive before it.
	QPLeaves(*QP)
	// QPModified comes after qp.State and qp.Attr hold the new values. To ERR: flush; to RESET: forget all; to RTR,
	// RTS: look for work.
	QPModified(qp *QP, from, to QPState)
	// QPDestroyed comes when no new work may start; nothing of the QP may be touched afterwards.
	QPDestroyed(*QP)
	// StreamReset takes a stream of a DCI out of its error.
	StreamReset(qp *QP, stream uint16)
}

func (qp *QP) engine() QPEngine { return qp.Context.Device.Fabric.engine.(QPEngine) }

// qps are the QPs of a device, by number from FirstQPN on.
type qps struct {
	numbers[QP]
	dealt    int             // those that were given a port of the bond
	reserved map[uint32]bool // ranges of QPNs, by the first
}

var qpPart = newPart[qps]()

func (d *Device) qps() *qps { return qpPart.of(&d.parts) }

// QPCap is what a QP was granted.
type QPCap struct {
	SendWR, RecvWR, SendSGE, RecvSGE, Inline uint32
}

const maxQPN = 1 << 24

// most is how many QPNs there are for QPs, most of them at a time: more, so that a number is not used again at once.
func (*qps) most(most int) uint32 { return uint32(min(most+1024, maxQPN-FirstQPN)) }

// number gives a QP its number.
func (t *qps) number(qp *QP, most int) bool {
	n, ok := t.place(0, int(t.most(most)), qp)
	if ok {
		qp.Num = uint32(n) + FirstQPN
	}
	return ok
}

// deal returns the port of a bond of n that a new QP sends from: they take turns.
func (t *qps) deal(n int) uint8 {
	t.dealt++
	return uint8((t.dealt-1)%n) + 1
}

// reserve returns the first of n QPNs, a power of two, that no QP will have before release.
func (t *qps) reserve(n uint32, most int) (first uint32, release func(), ok bool) {
	from := (FirstQPN + t.most(most) + n - 1) &^ (n - 1)
	for first = from; first+n <= maxQPN; first += n {
		if !t.reserved[first] {
			if t.reserved == nil {
				t.reserved = map[uint32]bool{}
			}
			t.reserved[first] = true
			return first, func() { delete(t.reserved, first) }, true
		}
	}
	return 0, nil, false
}

// ReserveQPNs returns the first of n QPNs, a power of two, that no QP will have before release.
func (d *Device) ReserveQPNs(n uint32) (first uint32, release func(), ok bool) {
	return d.qps().reserve(n, d.Config.Limits.MaxQP)
}

// QP returns the QP with a number, or nil.
func (d *Device) QP(num uint32) *QP { return d.qps().at(num - FirstQPN) }

// EachQP calls do for every QP of the device.
func (d *Device) EachQP(do func(*QP)) { d.qps().each(do) }

// Port returns the port that the QP works on, or nil before it has one.
func (qp *QP) Port() *Port { return qp.Context.Device.port(qp.Attr.Port) }

// XRCD returns the domain of an XRC_RECV QP, or nil.
func (qp *QP) XRCD() *XRCD { return qp.uses.xrcd.domain() }

// Fatal tells the program that the QP, or the WQ that it is the queue of, failed.
func (qp *QP) Fatal() {
	if qp.Type == WorkQueue {
		qp.Event(EventWQFatal)
	} else {
		qp.Event(EventQPFatal)
	}
}
