package ibv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Rest moves the QP to ERR, where its work requests complete. If it has an SRQ, Rest waits for the event that its last
// receive from there has completed, EventQPLastWQEReached, which some goroutine has to read by Device.AsyncEvent.
// SoftRoCE and siw have no such event: Rest does not wait there. EventQPFatal of the QP and EventSRQErr of its SRQ end
// the wait with an *EventError.
func (qp *QP) Rest(ctx context.Context) error {
	const op = "rest"
	before := qp.State()
	if err := qp.Modify(&QPAttr{State: StateErr}, MaskState); err != nil {
		return err
	}
	if qp.srq == nil || before == StateReset || before == StateInit || !qp.dev.hasLastEvent() {
		return nil
	}
	select {
	case <-qp.rest.await():
		if err := qp.rest.outcome(); err != nil {
			return &OpError{Op: op, Object: qp.name, Err: err}
		}
		return nil
	case <-qp.dev.removed.ch:
		return &OpError{Op: op, Object: qp.name, Err: qp.dev.removed.err}
	case <-ctx.Done():
		return &OpError{Op: op, Object: qp.name, Err: ctx.Err(), Detail: "the event " +
			EventQPLastWQEReached.String() + " has not come: is a goroutine in Device.AsyncEvent?"}
	}
}

// Mark posts a work request to the send queue of a QP in ERR, and one to the receive queue, unless it has an SRQ, both
// with this ID. Their completions come after all others of their queues; Mark returns how many there will be. While a
// queue is full it waits for the goroutine that polls. After Rest nothing else comes, except from an SRQ's receives
// that were taken before. On siw, where all work requests have completed when Rest returns, Mark posts nothing and
// returns 0.
//
// The QP is of type RC or UC.
func (qp *QP) Mark(ctx context.Context, id uint64) (int, error) {
	m := marks{qp: qp, id: id}
	err := m.await(ctx, func() error { return nil })
	return m.posted, err
}

// Drain moves the QP to ERR and waits until nothing of it is under way any more. It polls the QP's CQs, and passes
// what it finds to take, also of other QPs, unless take is nil. No other goroutine polls them meanwhile; programs with
// a poller of their own call Rest and Mark. After an error something may still be under way. After EventQPFatal of the
// QP or EventCQErr of a CQ, Drain waits a moment for completions, and then returns an *EventError.
func (qp *QP) Drain(ctx context.Context, take func(wcs []WC)) error {
	m := marks{qp: qp, id: rand.Uint64()}
	if err := m.check(); err != nil {
		return err
	}
	if err := qp.Rest(ctx); err != nil {
		return err
	}
	poll := func() error { return m.poll(take) }
	if err := m.await(ctx, poll); err != nil {
		return err
	}
	for pause := time.Microsecond; m.seen < m.posted; pause = min(2*pause, time.Millisecond) {
		if err := poll(); err != nil {
			return err
		}
		if m.seen == m.posted {
			break
		}
		if err := m.pause(ctx, pause); err != nil {
			return err
		}
	}
	return poll() // what came by other CQEs than the marks': of a CQ for receives from an SRQ
}

// marks are the last work requests of a QP.
type marks struct {
	qp             *QP
	id             uint64
	sent, received bool
	posted, seen   int
	idle           int // pauses without a completion since something failed
}

// idleMost is how many pauses Drain makes for the completions of a QP that has failed. A device may flush it, but need
// not.
const idleMost = 20

// failed returns an event by which the QP or a CQ of it failed, as an error.
func (m *marks) failed() error {
	qp := m.qp
	switch {
	case qp.send.sleepers.failed.noted():
		return qp.send.sleepers.failed.err
	case qp.recv.sleepers.failed.noted():
		return qp.recv.sleepers.failed.err
	}
	return qp.rest.failed()
}

func (m *marks) fail(err error) error { return &OpError{Op: "mark", Object: m.qp.name, Err: err} }

// check reports why a QP cannot be marked in any state.
func (m *marks) check() error {
	t := m.qp.typ
	if t == RC || t == UC {
		return nil
	}
	return m.fail(&UnsupportedError{Feature: "draining a QP of type " + t.String(), Need: "RC or UC; Close ends others",
		Have: t.String()})
}

// await posts what can be posted, with polls in between.
func (m *marks) await(ctx context.Context, poll func() error) error {
	if err := m.check(); err != nil {
		return err
	}
	if s := m.qp.State(); s != StateErr {
		return m.fail(&StateError{Op: "the last work request", State: s, Need: "ERR, as after Rest"})
	}
	if m.qp.dev.restsAtOnce() {
		return nil
	}
	for pause := time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		err := m.post()
		if err == nil || !errors.Is(err, ErrQueueFull) {
			return err
		}
		if err := poll(); err != nil {
			return err
		}
		if err := m.pause(ctx, pause); err != nil {
			return err
		}
	}
}

// post posts what is missing.
func (m *marks) post() error {
	qp := m.qp
	if !m.sent {
		op := OpSend
		if qp.sq.ops>>OpSend&1 == 0 {
			op = OpWrite
		}
		if _, err := qp.PostSend([]SendWR{{ID: m.id, Opcode: op, Flags: Signaled}}); err != nil {
			return err
		}
		m.sent = true
		m.posted++
	}
	if !m.received && qp.srq == nil && qp.cap.MaxRecvWR > 0 {
		if _, err := qp.PostRecv([]RecvWR{{ID: m.id}}); err != nil {
			return err
		}
		m.posted++
		m.received = true
		if qp.dev.softRoCE() { // checks receives of a QP in ERR only after a modification to that state
			return qp.Modify(&QPAttr{State: StateErr}, MaskState)
		}
	}
	m.received = true
	return nil
}

// poll takes what is in the CQs.
func (m *marks) poll(take func([]WC)) error {
	cqs := []*CQ{m.qp.send, m.qp.recv}
	if cqs[0] == cqs[1] {
		cqs = cqs[:1]
	}
	var wcs [64]WC
	for _, cq := range cqs {
		for {
			n, err := cq.Poll(wcs[:])
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			m.idle = 0
			others := wcs[:0]
			for i := range wcs[:n] {
				if wcs[i].ID == m.id && wcs[i].QPN == m.qp.Num() {
					m.seen++
				} else {
					others = append(others, wcs[i])
				}
			}
			if take != nil && len(others) > 0 {
				take(others)
			}
		}
	}
	return nil
}

// pause waits, unless there is nothing to wait for any more.
func (m *marks) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	if m.failed() != nil {
		m.idle++
	}
	fail := func(err error) error {
		return &OpError{Op: "drain", Object: m.qp.name, Err: err,
			Detail: fmt.Sprintf("%d of its last work requests are posted, %d have completed", m.posted, m.seen)}
	}
	if m.idle > idleMost {
		return fail(m.failed())
	}
	select {
	case <-t.C:
		return nil
	case <-m.qp.dev.removed.ch:
		return fail(m.qp.dev.removed.err)
	case <-ctx.Done():
		return fail(ctx.Err())
	}
}
