package ibv

import (
	"errors"
	"sync"
	"sync/atomic"

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
	xrcd *XRCD          // of XRCRecv
	sq   *ops.SendChain // nil once closed, or on the direct data path; guarded by sqMu

	// The fields that PostSend uses fill one cache line; TestPostSendLayout checks it.
	direct  *mlx5.QP // nil once closed, or on the ops engine; changed with sqMu and rqMu held
	sending bool     // RTS or later was seen, and no reset followed; guarded by sqMu
	sqMu    lock
	state   *atomic.Uint32 // see stateOf

	node
	rss     *RWQIndTable // of an RSS QP
	handle  uintptr
	num     atomic.Uint32 // of a DCT 0 until it is in RTR
	typ     QPType
	cap     QPCap
	make    qpMaker
	pathWhy string

	ctrl qpControl

	groups  mcastGroups
	errSend sendErrors
	ops     uint32 // opcodes that the QP takes, 1<<OpSend and so on
	naming  uint32 // those that namingOps returns

	onlySendOps bool      // ops has the bits of QPOptions.SendOps
	room        *ops.Room // of the send queue, where this library has to count it; else nil

	maxTSOHeader int // bytes of TSO.Header
	frameHead    int // bytes of a frame that the device wants in the work request

	signalAll bool
	inCQE     inCQE

	receiving bool // INIT or later was seen, and no reset followed; guarded by rqMu
	rqMu      lock
	rq        *ops.RecvChain // nil once closed, or with an SRQ
	frames    *mlx5.RawRQ    // of a raw packet QP on the direct data path; nil once closed
	errRecv   recvErrors
	rest      rest
}

// qpControl holds the state of Endpoint, Init and Connect.
type qpControl struct {
	mu    sync.Mutex    // serialises them
	local *Endpoint     // what Endpoint last returned; nil before
	psn   atomic.Uint32 // of the first packet, with psnDrawn; 0 before Endpoint and after a reset
	port  uint8
	sgid  int
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

// CreateQP makes a queue pair in state RESET; opt may be nil. The two CQs may be the same. Cap has the granted sizes,
// at least the requested ones but for inline data: no attribute limits it, and devices such as mana_ib's grant none.
//
// C: ibv_create_qp(3).
func (pd *PD) CreateQP(send, recv *CQ, opt *QPOptions) (*QP, error) {
	return pd.createQP(send, recv, opt,
		qpMaker{Pair: pd.dev.pair(pd.dev.createQP, nil), createOut: pd.dev.createOut})
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
	return QPState(qp.state.Load())
}

// Close destroys the QP, whatever its state, and detaches it from the groups of AttachMcast. Later posts return
// ErrClosed.
//
// C: ibv_destroy_qp(3).
func (qp *QP) Close() error {
	var (
		sq *ops.SendChain
		rq *ops.RecvChain
	)
	return qp.node.close(func() error {
		qp.sqMu.Lock()
		defer qp.sqMu.Unlock()
		qp.rqMu.Lock()
		defer qp.rqMu.Unlock()
		if err := qp.suspended(qp.destroy); err != nil {
			return err
		}
		if qp.direct != nil {
			qp.dev.direct.qps.Forget(qp.direct)
			qp.dropFrames()
			qp.direct = nil
			if qp.typ == DCT {
				qp.recv.mu.Lock()
				qp.recv.dcts--
				qp.recv.mu.Unlock()
			}
		}
		if qp.typ == DCT {
			qp.errSend.gone = &OpError{Op: opPostSend, Object: qp.name, Err: ErrClosed}
		}
		if qp.send != nil {
			qp.send.forgetSends(qp)
		}
		qp.carry(-1)
		qp.dev.unregister(qp.handle)
		sq, rq = qp.sq, qp.rq
		qp.sq, qp.rq = nil, nil
		return nil
	}, qp.make.mlx5.close, func() error {
		if sq == nil {
			return nil
		}
		if rq == nil {
			return sq.Free()
		}
		return errors.Join(sq.Free(), rq.Free())
	})
}
