package ibv

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/internal/mlx5"
)

// Batch builds work requests in place and posts them with one doorbell:
//
//	b := qp.Batch()
//	b.Write(1, 0, mr.SGE(0, 4096), remote.At(0))
//	b.WriteImm(2, ibv.Signaled, mr.SGE(4096, 64), remote.At(4096), 7)
//	err := b.Post()
//
// From QP.Batch to Post or Discard the send queue is the Batch's alone: others
// that post wait, so build quickly and never leave a Batch open. One goroutine
// uses a Batch. A mistake in one call is reported by Post, which then posts
// nothing. No method but a failing one allocates.
type Batch struct {
	qp *QP
	id uint64
}

// neverBatch is the id of a Batch that could not begin.
const neverBatch = ^uint64(0)

// Batch takes the send queue until Post or Discard. Without a lock, on a
// ThreadDomain or with SingleThreaded, a second Batch meanwhile is an error of its
// Post, ErrBatchOpen, and PostSend too.
func (qp *QP) Batch() Batch {
	qp.sqMu.Lock()
	if qp.sqMu.off && qp.batchID.Load() != 0 {
		return Batch{qp, neverBatch}
	}
	qp.batchSeq++
	qp.batchID.Store(qp.batchSeq)
	qp.batchN, qp.batchErr, qp.batchFull = 0, nil, false
	if qp.sq == nil && qp.direct == nil {
		qp.batchErr = qp.errSend.gone
	} else if s := qp.loadState(); s < StateRTS || s == StateUnknown {
		qp.batchErr = qp.sendState(s)
	} else if qp.direct != nil {
		if qp.direct.Broken() {
			qp.batchErr = qp.errSend.broken
		}
		qp.batchMark = qp.direct.SQ.Mark()
	}
	return Batch{qp: qp, id: qp.batchSeq}
}

// Len is the number of work requests in the Batch, 0 once it is posted.
func (b Batch) Len() int {
	if b.qp.batchID.Load() != b.id {
		return 0
	}
	return b.qp.batchN
}

// slot starts a work request. It returns -1 when the Batch has failed, is full
// or is over.
func (b Batch) slot() int {
	qp := b.qp
	if qp.batchID.Load() != b.id || qp.batchErr != nil {
		return -1
	}
	i := qp.batchN
	if qp.direct != nil {
		qp.batchN++
		if qp.batchFull {
			return -1 // what did not fit must not be overtaken
		}
		return i
	}
	if i == qp.sq.Len() {
		qp.batchErr = &LimitError{What: "work requests in a batch", Asked: uint64(i) + 1, Limit: uint64(i), Where: "qp " + qp.name}
		return -1
	}
	qp.batchN++
	return i
}

func (b Batch) fail(err error) {
	if err != nil && b.qp.batchErr == nil {
		b.qp.batchErr = fmt.Errorf("work request %d: %w", b.qp.batchN-1, err)
	}
}

// rdma builds a work request with a remote address on the direct data path.
func (b Batch) rdma(id uint64, op Opcode, flags SendFlags, imm uint32, s *SGE, to *RemoteAddr) {
	if !b.qp.direct.SQ.RDMA(id, uint32(op), uint32(flags), imm, (*mlx5.RemoteAddr)(to), (*mlx5.SGE)(s)) {
		b.qp.batchFull = true
	}
}

// send builds a send on the direct data path.
func (b Batch) send(id uint64, op Opcode, flags SendFlags, imm uint32, s *SGE) {
	if !b.qp.direct.SQ.Send(id, uint32(op), uint32(flags), imm, (*mlx5.SGE)(s)) {
		b.qp.batchFull = true
	}
}

// build builds any work request on the direct data path.
func (b Batch) build(wr *SendWR) {
	switch err := b.qp.buildDirect(wr); err {
	case nil:
	case ErrQueueFull:
		b.qp.batchFull = true
	default:
		b.fail(err)
	}
}

func (b Batch) address(id uint64, op Opcode, flags SendFlags, s *SGE, imm uint32, ah *AH, qpn, qkey uint32) {
	qp, q := b.qp, &b.qp.direct.SQ
	if err := qp.checkUD(ah, qpn); err != nil {
		b.fail(err)
		return
	}
	if qp.typ != UD {
		b.fail(&ArgError{Arg: "AH", Got: "set", Want: "nil on a " + qp.typ.String() + " QP"})
		return
	}
	if !q.Begin(uint32(op), uint32(flags), imm, mlx5.AVSize/16+1) {
		qp.batchFull = true
		return
	}
	if !qp.addressDirect(ah, qpn, qkey) {
		b.fail(&OpError{Op: "use ah", Object: ah.name, Err: ErrClosed})
		return
	}
	q.Data((*mlx5.SGE)(s))
	q.Commit(id)
}

func (b Batch) atomic(id uint64, op Opcode, flags SendFlags, s *SGE, at *RemoteAddr, swapAdd, compare uint64) {
	qp, q := b.qp, &b.qp.direct.SQ
	if qp.typ != RC {
		b.fail(&ArgError{Arg: "Opcode", Got: op.String(), Want: "an opcode of a " + qp.typ.String() + " QP"})
		return
	}
	if !q.Begin(uint32(op), uint32(flags), 0, 3) {
		qp.batchFull = true
		return
	}
	q.Remote(at.Addr, at.RKey)
	q.Atomic(swapAdd, compare)
	q.Data((*mlx5.SGE)(s))
	q.Commit(id)
}

func (b Batch) inlined(id uint64, op Opcode, flags SendFlags, data []byte, to *RemoteAddr) {
	qp, q := b.qp, &b.qp.direct.SQ
	if len(data) > qp.cap.MaxInline {
		b.fail(qp.tooLongInline(len(data)))
		return
	}
	segs := mlx5.InlineSegs(len(data))
	if to != nil {
		segs++
	}
	if !q.Begin(uint32(op), uint32(flags), 0, segs) {
		qp.batchFull = true
		return
	}
	if to != nil {
		q.Remote(to.Addr, to.RKey)
	}
	q.Inline(data)
	q.Commit(id)
}

// one makes slot i refer to one SGE.
func (b Batch) one(i int, s SGE) {
	to := &b.qp.sq.SGEs(i, 1)[0]
	to.Addr, to.Length, to.LKey = s.Addr, s.Length, s.LKey
}

// Send sends a message. A UD QP needs SendTo.
func (b Batch) Send(id uint64, flags SendFlags, s SGE) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.noUD()
			b.send(id, OpSend, flags, 0, &s)
			return
		}
		b.qp.sq.Slot(i, id, uint32(OpSend), uint32(flags))
		b.one(i, s)
		b.noUD()
	}
}

// SendImm sends a message with immediate data, in host order.
func (b Batch) SendImm(id uint64, flags SendFlags, s SGE, imm uint32) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.noUD()
			b.send(id, OpSendImm, flags, imm, &s)
			return
		}
		b.qp.sq.Slot(i, id, uint32(OpSendImm), uint32(flags)).SetImm(imm)
		b.one(i, s)
		b.noUD()
	}
}

// SendInv sends a message and invalidates an rkey of the peer.
func (b Batch) SendInv(id uint64, flags SendFlags, s SGE, rkey uint32) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.noUD()
			b.send(id, OpSendInv, flags, rkey, &s)
			return
		}
		if b.qp.pd.ctx.legacy {
			b.fail(b.qp.noInvalidate())
		}
		b.qp.sq.Slot(i, id, uint32(OpSendInv), uint32(flags)).SetInvalidateRKey(rkey)
		b.one(i, s)
		b.noUD()
	}
}

// SendTo sends a message from a UD QP.
func (b Batch) SendTo(id uint64, flags SendFlags, s SGE, ah *AH, qpn, qkey uint32) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.address(id, OpSend, flags, &s, 0, ah, qpn, qkey)
			return
		}
		b.qp.sq.Slot(i, id, uint32(OpSend), uint32(flags))
		b.one(i, s)
		b.to(i, ah, qpn, qkey)
	}
}

// SendImmTo sends a message with immediate data from a UD QP.
func (b Batch) SendImmTo(id uint64, flags SendFlags, s SGE, imm uint32, ah *AH, qpn, qkey uint32) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.address(id, OpSendImm, flags, &s, imm, ah, qpn, qkey)
			return
		}
		b.qp.sq.Slot(i, id, uint32(OpSendImm), uint32(flags)).SetImm(imm)
		b.one(i, s)
		b.to(i, ah, qpn, qkey)
	}
}

// Write writes to memory of the peer.
func (b Batch) Write(id uint64, flags SendFlags, s SGE, to RemoteAddr) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.rdma(id, OpWrite, flags, 0, &s, &to)
			return
		}
		b.qp.sq.Slot(i, id, uint32(OpWrite), uint32(flags)).SetRDMA(to.Addr, to.RKey)
		b.one(i, s)
	}
}

// WriteImm writes to memory of the peer and consumes one of its receives.
func (b Batch) WriteImm(id uint64, flags SendFlags, s SGE, to RemoteAddr, imm uint32) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.rdma(id, OpWriteImm, flags, imm, &s, &to)
			return
		}
		w := b.qp.sq.Slot(i, id, uint32(OpWriteImm), uint32(flags))
		w.SetRDMA(to.Addr, to.RKey)
		w.SetImm(imm)
		b.one(i, s)
	}
}

// Read reads memory of the peer into s.
func (b Batch) Read(id uint64, flags SendFlags, s SGE, from RemoteAddr) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.rdma(id, OpRead, flags, 0, &s, &from)
			return
		}
		b.qp.sq.Slot(i, id, uint32(OpRead), uint32(flags)).SetRDMA(from.Addr, from.RKey)
		b.one(i, s)
	}
}

// CompareSwap sets 8 bytes of the peer to swap if they are compare; s receives
// what was there.
func (b Batch) CompareSwap(id uint64, flags SendFlags, s SGE, at RemoteAddr, compare, swap uint64) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.atomic(id, OpCompareSwap, flags, &s, &at, swap, compare)
			return
		}
		b.qp.sq.Slot(i, id, uint32(OpCompareSwap), uint32(flags)).SetAtomic(at.Addr, compare, swap, at.RKey)
		b.one(i, s)
	}
}

// FetchAdd adds to 8 bytes of the peer; s receives what was there.
func (b Batch) FetchAdd(id uint64, flags SendFlags, s SGE, at RemoteAddr, add uint64) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.atomic(id, OpFetchAdd, flags, &s, &at, add, 0)
			return
		}
		b.qp.sq.Slot(i, id, uint32(OpFetchAdd), uint32(flags)).SetAtomic(at.Addr, add, 0, at.RKey)
		b.one(i, s)
	}
}

// SendInline sends data that is copied into the work request.
func (b Batch) SendInline(id uint64, flags SendFlags, data []byte) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.noUD()
			b.inlined(id, OpSend, flags, data, nil)
			return
		}
		b.qp.sq.Slot(i, id, uint32(OpSend), uint32(flags|Inline))
		b.inline(i, data)
		b.noUD()
	}
}

// WriteInline writes data, copied into the work request, to memory of the peer.
func (b Batch) WriteInline(id uint64, flags SendFlags, data []byte, to RemoteAddr) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.inlined(id, OpWrite, flags, data, &to)
			return
		}
		b.qp.sq.Slot(i, id, uint32(OpWrite), uint32(flags|Inline)).SetRDMA(to.Addr, to.RKey)
		b.inline(i, data)
	}
}

// Add adds a work request of any kind.
func (b Batch) Add(wr *SendWR) {
	if i := b.slot(); i >= 0 {
		if b.qp.direct != nil {
			b.build(wr)
			return
		}
		if err := b.qp.fill(i, wr); err != nil {
			b.fail(err)
		} else if wr.AH != nil {
			b.qp.batchAHs = append(b.qp.batchAHs, wr.AH)
		}
	}
}

func (b Batch) inline(i int, data []byte) {
	if err := b.qp.fillInline(i, data); err != nil {
		b.fail(err)
	}
}

func (b Batch) to(i int, ah *AH, qpn, qkey uint32) {
	if err := b.qp.fillUD(i, ah, qpn, qkey); err != nil {
		b.fail(err)
		return
	}
	b.qp.batchAHs = append(b.qp.batchAHs, ah)
}

// noUD refuses a send without a peer on a UD QP.
func (b Batch) noUD() {
	if b.qp.typ == UD {
		b.fail(&ArgError{Arg: "AH", Got: "nil", Want: "the way to the peer, on a UD QP: use SendTo"})
	}
}

// Post posts the Batch with one doorbell and gives the send queue back. Either
// all work requests are posted, or the error says how many: a *PostError. After
// a mistake in building nothing is posted. An empty Batch is no error.
func (b Batch) Post() error {
	qp := b.qp
	if qp.batchID.Load() != b.id {
		if b.id == neverBatch {
			return &OpError{Op: "post batch", Object: qp.name, Err: ErrBatchOpen}
		}
		return &OpError{Op: "post batch", Object: qp.name, Err: ErrBatchOver}
	}
	n, err := qp.batchN, qp.batchErr
	took, errno := 0, 0
	switch {
	case qp.direct != nil && qp.batchErr != nil:
		qp.direct.SQ.Rollback(qp.batchMark)
	case qp.direct != nil:
		q := &qp.direct.SQ
		took = q.Since(qp.batchMark)
		q.Ring()
		if qp.batchFull {
			b.end()
			return &PostError{Object: qp.name, Accepted: took, Total: n, Err: ErrQueueFull}
		}
	case err == nil && n > 0:
		took, errno = qp.sq.Post(n)
	}
	b.end()
	if err != nil {
		return &PostError{Object: qp.name, Total: n, Err: err}
	}
	if errno != 0 {
		err := errnoError(errno)
		if isQueueFull(err) {
			err = ErrQueueFull
		}
		return &PostError{Object: qp.name, Accepted: took, Total: n, Err: err}
	}
	return nil
}

// Discard forgets the Batch and gives the send queue back.
func (b Batch) Discard() {
	if b.qp.batchID.Load() == b.id {
		if b.qp.direct != nil {
			b.qp.direct.SQ.Rollback(b.qp.batchMark)
		}
		b.end()
	}
}

func (b Batch) end() {
	qp := b.qp
	for i, ah := range qp.batchAHs {
		ah.release()
		qp.batchAHs[i] = nil
	}
	qp.batchAHs = qp.batchAHs[:0]
	qp.batchID.Store(0)
	qp.sqMu.Unlock()
}

// ErrBatchOver is the use of a Batch after Post or Discard.
var ErrBatchOver = errors.New("the batch was posted or discarded before")

// ErrBatchOpen is the use of a send queue without a lock while a Batch has it.
var ErrBatchOpen = errors.New("a batch of this qp is open: post or discard it first")

// dropBatch discards the Batch that is open on a QP without a lock, whose goroutine
// is this one.
func (qp *QP) dropBatch() {
	if id := qp.batchID.Load(); qp.sqMu.off && id != 0 {
		Batch{qp, id}.Discard()
	}
}

// PostError is a Batch of which not all was posted. What was accepted will
// complete.
type PostError struct {
	Object   string
	Accepted int // the first so many work requests were taken
	Total    int
	Err      error
}

func (e *PostError) Error() string {
	return fmt.Sprintf("post batch %s: %d of %d work requests taken: %v", e.Object, e.Accepted, e.Total, e.Err)
}

// Unwrap is what stopped the posting.
func (e *PostError) Unwrap() error { return e.Err }
