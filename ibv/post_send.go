package ibv

import "fmt"

const opPostSend = "post send"

// sendErrors are what posting returns over and over, made once.
type sendErrors struct{ gone, full, unsignaled, broken error }

func (e *sendErrors) init(qp *QP) {
	e.gone = &OpError{Op: opPostSend, Object: qp.name, Err: goneOf(qp.send.path)}
	e.full = &OpError{Op: opPostSend, Object: qp.name, Err: ErrQueueFull}
	e.unsignaled = &OpError{Op: opPostSend, Object: qp.name, Err: ErrQueueFull,
		Detail: "no work request in the queue asked for a completion, so polling frees nothing: set Signaled on some, or QPOptions.SignalAll; " +
			"this queue is freed by Modify to RESET only"}
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
	if d := qp.direct; d != nil && len(wrs) == 1 && qp.loadState() == StateRTS && !d.Broken() &&
		d.SQ.PostOne(mlx5Send(&wrs[0]), qp.plain, qp.cap.MaxInline) {
		qp.sqMu.Unlock()
		return 1, nil
	}
	n, err := qp.postLocked(wrs, false)
	qp.sqMu.Unlock()
	return n, err
}

// post posts wrs. With whole, a mistake in one of them refuses all.
func (qp *QP) post(wrs []SendWR, whole bool) (int, error) {
	qp.sqMu.Lock()
	n, err := qp.postLocked(wrs, whole)
	qp.sqMu.Unlock()
	return n, err
}

// Preconditions: qp.sqMu is held.
func (qp *QP) postLocked(wrs []SendWR, whole bool) (int, error) {
	if qp.sq == nil && qp.direct == nil {
		return 0, qp.errSend.gone
	}
	if s := qp.loadState(); s < StateRTS || s == StateUnknown {
		return 0, qp.sendState(s)
	}
	if qp.direct != nil {
		return qp.postDirect(wrs, whole)
	}
	return qp.postOps(wrs, whole)
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
	return &OpError{Op: opPostSend, Object: qp.name, Err: &StateError{Op: opPostSend, State: s, Need: "RTS: Connect, or Modify to RTS"}}
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
