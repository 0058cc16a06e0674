package ibv

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/life"
	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// QP is a queue pair: a send queue and a receive queue.
//
// It belongs to its PD. Methods are safe for concurrent use; PostSend, PostRecv and Batch.Post
// each take one lock, which is normally uncontended. On a ThreadDomain, or with the option
// SingleThreaded, there is no lock and only one goroutine at a time may use the QP. Memory
// named by posted work requests belongs to the device until their completions. Close and Modify
// to RESET do not wait for those: after either, completions of earlier work requests are no
// longer returned.
//
// C: struct ibv_qp.
type QP struct {
	dev  *Device
	pd   *PD // nil for XRCRecv
	send *CQ // nil for XRCRecv and RSS
	recv *CQ // nil for XRCRecv, XRCSend and RSS
	srq  *SRQ
	xrcd *XRCD // of XRCRecv

	sq sender

	node
	rss     *RWQIndTable // of an RSS QP
	handle  uintptr
	num     atomic.Uint32 // of a DCT 0 until it is in RTR
	typ     QPType
	cap     QPCap
	make    qpMaker
	pathWhy string
	inCQE   inCQE

	rq     receiver
	conn   connector
	groups mcastGroups
	rest   rest
}

// sender is the send queue.
type sender struct {
	chain *ops.SendChain // nil once closed, or on the direct data path; guarded by mu

	// The fields that PostSend uses fill one cache line; TestPostSendLayout checks it.
	direct  *mlx5.QP // both queues; nil once closed, or on the ops engine; changed with the locks of both held
	sending bool     // RTS or later was seen, and no reset followed; guarded by mu
	mu      lock
	state   *atomic.Uint32 // of the QP: see stateOf

	// What follows does not change, but for the state of a Room.
	qp     *QP
	errs   sendErrors
	ops    uint32 // opcodes that the QP takes, 1<<OpSend and so on
	naming uint32 // those that namingOps returns

	onlySendOps bool      // ops has the bits of QPOptions.SendOps
	signalAll   bool      // QPOptions.SignalAll
	room        *ops.Room // where this library has to count it; else nil

	maxTSOHeader int // bytes of TSO.Header
	frameHead    int // bytes of a frame that the device wants in the work request
}

// receiver is the receive queue.
type receiver struct {
	qp   *QP
	errs recvErrors

	mu        lock
	receiving bool           // INIT or later was seen, and no reset followed; guarded by mu
	chain     *ops.RecvChain // nil once closed, or with an SRQ; guarded by mu
	frames    *mlx5.RawRQ    // of a raw packet QP on the direct data path; nil once closed
}

// connector has the state of Endpoint, Init and Connect.
type connector struct {
	qp    *QP
	mu    sync.Mutex    // serialises them
	local *Endpoint     // what Endpoint last returned; nil before
	psn   atomic.Uint32 // of the first packet, with psnDrawn; 0 before Endpoint and after a reset
	port  uint8
	sgid  int
}

// newQP returns the QP of the C object h, without queues.
func newQP(d *Device, h uintptr, typ QPType, maker qpMaker, why string) *QP {
	qp := &QP{dev: d, handle: h, typ: typ, make: maker, pathWhy: why}
	qp.sq.qp, qp.rq.qp, qp.conn.qp = qp, qp, qp
	qp.sq.state, qp.conn.sgid = d.stateOf(h), -1
	qp.num.Store(d.v.QPNumber(h))
	return qp
}

// QPCap is the size of a QP's queues.
//
// C: struct ibv_qp_cap.
type QPCap struct {
	MaxSendWR  int // work requests outstanding in the send queue
	MaxRecvWR  int // in the receive queue
	MaxSendSGE int // entries in one send work request
	MaxRecvSGE int // in one receive work request
	MaxInline  int // bytes of inline data in one send work request
}

// QPOptions are the options of CreateQP. Its numbers can be None.
type QPOptions struct {
	Type       QPType // the zero value means RC
	MaxSendWR  int    // 0 means 128, or DeviceAttr.MaxQPWR if that is less
	MaxRecvWR  int    // 0 means the same; not used with an SRQ
	MaxSendSGE int    // 0 means 1
	MaxRecvSGE int    // 0 means 1
	MaxInline  int    // 0 means none
	SignalAll  bool   // every send work request gives a completion, not only those with Signaled
	SRQ        *SRQ   // source of receives, in place of a receive queue of its own

	Raw RawOptions // RawPacket only

	// RSS makes a QP of type RawPacket spread frames among WQs. CreateQP takes no CQs then.
	RSS *RSSOptions

	// SendOps, unless 0, are the operations that will be posted, and all that PostSend takes.
	// On the ops data path they are then posted by the functions behind ibv_wr_*. Flush and
	// AtomicWrite cannot be posted in any other way.
	SendOps SendOps

	// SingleThreaded takes no lock: only one goroutine at a time may use the QP, including
	// Close. It is implied by a ThreadDomain.
	SingleThreaded bool
}

// Num returns the QP number, by which peers address the QP. That of a DCT is 0 until it is in RTR.
func (qp *QP) Num() uint32 { return qp.num.Load() }

// Type returns the transport.
func (qp *QP) Type() QPType { return qp.typ }

// Cap returns the size of the queues, as granted. It may be more than CreateQP was asked for, and on some devices less.
func (qp *QP) Cap() QPCap { return qp.cap }

// PD returns the protection domain of the QP, nil for XRCRecv.
func (qp *QP) PD() *PD { return qp.pd }

// Device returns the device that the QP belongs to.
func (qp *QP) Device() *Device { return qp.dev }

// DataPath returns the engine of the QP, which is that of its CQs, and why it was selected. On the direct data path the
// reason also describes how the QP rings the device. An XRCRecv or RSS QP, which has no CQ, has DataPathAuto.
func (qp *QP) DataPath() (DataPath, string) { return qp.path(), qp.pathWhy }

func (qp *QP) path() DataPath {
	if qp.send == nil {
		return DataPathAuto
	}
	return qp.send.path
}

// SendCQ returns the CQ for send completions, nil for XRCRecv and an RSS QP.
func (qp *QP) SendCQ() *CQ { return qp.send }

// RecvCQ returns the CQ for receive completions, nil for XRCRecv, XRCSend and an RSS QP.
func (qp *QP) RecvCQ() *CQ { return qp.recv }

// State returns the last state that the library knows: after a failure of the QP, only Query
// updates it. It is StateUnknown after Close.
func (qp *QP) State() QPState {
	if qp.enter("qp state") != nil {
		return StateUnknown
	}
	defer qp.leave()
	return qp.loadState()
}

// loadState returns the state that the last modify or query has left, on any thread.
// Preconditions: the QP is open and cannot be closed meanwhile.
func (qp *QP) loadState() QPState {
	return QPState(qp.sq.state.Load())
}

// finish makes the QP an open child of parents.
func (qp *QP) finish(parents ...*node) {
	if qp.typ == DCT {
		qp.node.initNumbered("dct", qp.dev.Name(), parents...)
	} else {
		qp.node.init("qp", fmt.Sprintf("%s/%#06x", qp.dev.Name(), qp.Num()), parents...)
	}
	if qp.send != nil {
		qp.send.countSends(qp)
	}
	qp.inCQE.carry(qp.srq, 1)
	qp.sq.errs.init(qp)
	qp.rq.errs.init(qp)
	if qp.sq.direct != nil && qp.typ != DCT {
		qp.cqs((*CQ).leaveXRC)
		qp.dev.direct.qps.Add(qp.sq.direct)
	}
	qp.dev.register(qp.handle, qp)
	life.Watch(qp, &qp.life)
}

// mcastGroup is a multicast group.
type mcastGroup struct {
	gid GID
	lid uint16
}

// mcastGroups are those that AttachMcast attached a QP to.
type mcastGroups struct {
	mu  sync.Mutex
	set map[mcastGroup]struct{} // nil for none
}
