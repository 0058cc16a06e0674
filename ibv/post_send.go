package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/mlx5"
)

const opPostSend = "post send"

// sendErrors are the errors that posting returns often, allocated once.
type sendErrors struct{ gone, full, unsignaled, broken error }

func (e *sendErrors) init(qp *QP) {
	why := qp.goneError()
	if qp.typ == DCT {
		why = errNoSend
	}
	all := &[...]OpError{ // one allocation
		{Op: opPostSend, Object: qp.name, Err: why},
		{Op: opPostSend, Object: qp.name, Err: ErrQueueFull},
		{Op: opPostSend, Object: qp.name, Err: ErrQueueFull,
			Detail: "no work request in the queue asked for a completion, so polling frees nothing: " +
				"set Signaled on some, or QPOptions.SignalAll; only Modify to RESET empties this queue"},
		{Op: opPostSend, Object: qp.name, Err: ErrBroken},
	}
	e.gone, e.full, e.unsignaled, e.broken = &all[0], &all[1], &all[2], &all[3]
}

// goneError returns why the QP has no queue to post to.
func (qp *QP) goneError() error {
	switch {
	case qp.typ == XRCRecv:
		return errXRCRecv
	case qp.rss != nil:
		return errRSS
	}
	return goneOf(qp.send.path)
}

var errXRCRecv = &UnsupportedError{Feature: "posting to an XRCRecv QP",
	Need: "an XRCSend QP for sends, an XRC SRQ for receives", Have: "a QP without queues"}

// goneOf returns why there is no queue to post to.
func goneOf(path DataPath) error {
	if path == DataPathRaw {
		return ErrRaw
	}
	return ErrClosed
}

// PostSend posts work requests in order, with one doorbell for as many as the provider accepts
// at once. It returns the number n that were accepted. If n < len(wrs), the error is about wrs[n]; ErrQueueFull means
// that completions must be polled first. Accepted work requests will complete, whatever happens to the rest. PostSend
// does not allocate.
//
// C: ibv_post_send(3).
func (qp *QP) PostSend(wrs []SendWR) (int, error) {
	wrs = wrs[:len(wrs):len(wrs)] // a capacity would be one more word to keep on the stack
	qp.sq.mu.Lock()
	d := qp.sq.direct
	if d == nil {
		if q := qp.sq.chain; q != nil && qp.loadState() == StateRTS && !qp.inCQE.checksTargets(qp.dev) {
			n := q.Run(first(wrs), len(wrs))
			if n == len(wrs) {
				qp.sq.mu.Unlock()
				return n, nil
			}
			if n >= 0 {
				return n, qp.sq.refused(wrs[n].Opcode)
			}
		}
		return qp.sq.postRest(wrs, 0, false)
	}
	if !qp.sq.sending || !d.Sends() || len(wrs) == 0 {
		return qp.sq.postRest(wrs, 0, false)
	}
	if !d.SQ.Post(first(wrs), len(wrs)) {
		return qp.sq.postRest(wrs, qp.sq.direct.SQ.Pending(), false)
	}
	qp.sq.mu.Unlock()
	return len(wrs), nil
}

// post is PostSend of the Batch's work requests, except that a mistake in one rejects all of them.
func (b *Batch) post() (int, error) {
	qp, n := b.qp, 0
	qp.sq.mu.Lock()
	if q := qp.sq.ready(); q != nil && b.n > 0 {
		if n = q.PostBriefs(workBriefs(b.briefs[:b.n])); n == b.n {
			qp.sq.mu.Unlock()
			return n, nil
		}
	}
	wrs := b.expand()
	if q := qp.sq.chain; q != nil && qp.loadState() == StateRTS && !qp.inCQE.checksTargets(qp.dev) {
		if n = q.Run(first(wrs), len(wrs)); n >= 0 && n < len(wrs) {
			return n, qp.sq.refused(wrs[n].Opcode)
		}
		if n > 0 {
			qp.sq.mu.Unlock()
			return n, nil
		}
		n = 0
	}
	return qp.sq.postRest(wrs, n, true)
}

// ready returns the send queue of the direct data path, nil if there is none or it may not
// send.
func (sq *sender) ready() *mlx5.SQ {
	d := sq.direct
	if d == nil || !sq.sending || !d.Sends() {
		return nil
	}
	return &d.SQ
}

// postRest posts what SQ.Post left. On the direct data path it built n work requests and did
// not ring the doorbell.
// Preconditions: qp.sq.mu is held. postRest unlocks it.
func (sq *sender) postRest(wrs []SendWR, n int, whole bool) (int, error) {
	var err error
	switch {
	case n > 0:
		n, err = sq.postDirect(wrs, n, whole)
	case sq.chain == nil && sq.direct == nil, sq.qp.typ == DCT: // first: a closed QP has no state to read
		err = sq.errs.gone
	case !sq.maySend():
		err = sq.sendState(sq.qp.loadState())
	case sq.direct == nil:
		n, err = sq.postOps(wrs, whole)
	case sq.direct.Broken():
		err = sq.errs.broken
	default:
		sq.sending = true
		n, err = sq.postDirect(wrs, 0, whole)
	}
	sq.mu.Unlock()
	return n, err
}

// maySend reports whether the state allows posting.
// Preconditions: qp.sq.mu is held, the QP is open.
func (sq *sender) maySend() bool {
	s := sq.qp.loadState()
	return s >= StateRTS && s != StateUnknown
}

// badSend returns the error of the work request at which posting stopped.
func (sq *sender) badSend(i int, err error) error {
	return &OpError{Op: opPostSend, Object: sq.qp.name, Err: err, Detail: fmt.Sprintf("work request %d", i)}
}

// checkAll returns the first mistake in wrs[from:].
func (sq *sender) checkAll(wrs []SendWR, from int) error {
	for i := from; i < len(wrs); i++ {
		if _, err := sq.checkSend(&wrs[i]); err != nil {
			return sq.badSend(i, err)
		}
	}
	return nil
}

func (sq *sender) sendState(s QPState) error {
	err := &StateError{Op: opPostSend, State: s, Need: "RTS: Connect, or Modify to RTS"}
	return &OpError{Op: opPostSend, Object: sq.qp.name, Err: err}
}

// StateError reports an operation that the state of the QP does not allow. It unwraps to
// EINVAL.
type StateError struct {
	Op    string
	State QPState
	Need  string // the required state, and how to reach it
}

func (e *StateError) Error() string {
	return fmt.Sprintf("the qp is in state %v; %s needs %s", e.State, e.Op, e.Need)
}

// Unwrap returns EINVAL, which the C call would have returned.
func (e *StateError) Unwrap() error { return errInvalid }
