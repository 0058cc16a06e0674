package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/mlx5"
)

const opPostSend = "post send"

// sendErrors are what posting returns over and over, made once.
type sendErrors struct{ gone, full, unsignaled, broken error }

func (e *sendErrors) init(qp *QP) {
	e.gone = &OpError{Op: opPostSend, Object: qp.name, Err: goneOf(qp.send.path)}
	e.full = &OpError{Op: opPostSend, Object: qp.name, Err: ErrQueueFull}
	e.unsignaled = &OpError{Op: opPostSend, Object: qp.name, Err: ErrQueueFull,
		Detail: "no work request in the queue asked for a completion, so polling frees nothing: " +
			"set Signaled on some, or QPOptions.SignalAll; this queue is freed by Modify to RESET only"}
	e.broken = &OpError{Op: opPostSend, Object: qp.name, Err: ErrBroken}
}

// goneOf is why there is nothing to post to.
func goneOf(path DataPath) error {
	if path == DataPathRaw {
		return ErrRaw
	}
	return ErrClosed
}

// PostSend posts work requests in order, with one doorbell for as many as the
// provider takes at once. It returns how many were accepted; when those are not
// all, the error says what is wrong with wrs[n]: ErrQueueFull when completions
// have to be polled first. What was accepted will complete whatever becomes of
// the rest. It does not allocate.
//
// C: ibv_post_send(3).
func (qp *QP) PostSend(wrs []SendWR) (int, error) {
	qp.sqMu.Lock()
	n := 0
	if q := qp.ready(); q != nil && len(wrs) > 0 {
		if n = q.Post(first(wrs), len(wrs)); n == len(wrs) {
			qp.sqMu.Unlock()
			return n, nil
		}
	}
	return qp.postRest(wrs, n, false)
}

// postWhole is PostSend, but a mistake in one of wrs refuses all.
func (qp *QP) postWhole(wrs []SendWR) (int, error) {
	qp.sqMu.Lock()
	n := 0
	if q := qp.ready(); q != nil && len(wrs) > 0 {
		if n = q.Post(first(wrs), len(wrs)); n == len(wrs) {
			qp.sqMu.Unlock()
			return n, nil
		}
	}
	return qp.postRest(wrs, n, true)
}

// ready returns the send queue of the direct data path, nil if there is none that may send.
func (qp *QP) ready() *mlx5.SQ {
	d := qp.direct
	if d == nil || qp.loadState() != StateRTS || d.Broken() {
		return nil
	}
	return &d.SQ
}

// postRest posts what the direct data path does not build in one run. Of that it has built n, and not rung.
// Preconditions: qp.sqMu is held, and is given back.
func (qp *QP) postRest(wrs []SendWR, n int, whole bool) (int, error) {
	var err error
	switch {
	case n > 0:
		n, err = qp.postDirect(wrs, n, whole)
	case qp.sq == nil && qp.direct == nil: // first: a closed QP has no state to read
		err = qp.errSend.gone
	case !qp.maySend():
		err = qp.sendState(qp.loadState())
	case qp.direct == nil:
		n, err = qp.postOps(wrs, whole)
	case qp.direct.Broken():
		err = qp.errSend.broken
	default:
		n, err = qp.postDirect(wrs, 0, whole)
	}
	qp.sqMu.Unlock()
	return n, err
}

// maySend reports whether the state allows posting.
// Preconditions: qp.sqMu is held, the QP is open.
func (qp *QP) maySend() bool {
	s := qp.loadState()
	return s >= StateRTS && s != StateUnknown
}

// badSend is the error of the work request that PostSend stopped at.
func (qp *QP) badSend(i int, err error) error {
	return &OpError{Op: opPostSend, Object: qp.name, Err: err, Detail: fmt.Sprintf("work request %d", i)}
}

// checkAll returns the first mistake in wrs[from:].
func (qp *QP) checkAll(wrs []SendWR, from int) error {
	for i := from; i < len(wrs); i++ {
		if _, err := qp.checkSend(&wrs[i]); err != nil {
			return qp.badSend(i, err)
		}
	}
	return nil
}

func (qp *QP) sendState(s QPState) error {
	err := &StateError{Op: opPostSend, State: s, Need: "RTS: Connect, or Modify to RTS"}
	return &OpError{Op: opPostSend, Object: qp.name, Err: err}
}

// StateError is an operation in a state of the QP that does not allow it.
type StateError struct {
	Op    string
	State QPState
	Need  string // the state to be in, and how to get there
}

func (e *StateError) Error() string {
	return fmt.Sprintf("the qp is in state %v; %s needs %s", e.State, e.Op, e.Need)
}

// Unwrap makes a StateError an EINVAL, as the C call would have answered.
func (e *StateError) Unwrap() error { return errInvalid }
