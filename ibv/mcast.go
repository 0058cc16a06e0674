package ibv

import (
	"errors"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// AttachMcast makes a UD QP receive the messages sent to a multicast group. lid is the LID of
// the group, 0 on RoCE. Frames of a group get to a RawPacket QP by CreateFlow.
//
// C: ibv_attach_mcast(3).
func (qp *QP) AttachMcast(group GID, lid uint16) error {
	return qp.mcast("attach mcast", true, group, lid)
}

// DetachMcast undoes AttachMcast.
//
// C: ibv_detach_mcast(3).
func (qp *QP) DetachMcast(group GID, lid uint16) error {
	return qp.mcast("detach mcast", false, group, lid)
}

func (qp *QP) mcast(op string, attach bool, group GID, lid uint16) error {
	if err := qp.enterStates(op); err != nil {
		return err
	}
	defer qp.leave()
	if qp.typ == DCT {
		return &OpError{Op: op, Object: qp.name, Err: &ArgError{Arg: "qp", Got: "a DCT", Want: "a UD QP"}}
	}
	g := mcastGroup{group, lid}
	err := qp.callMcast(g, attach)
	if qp.typ == RawPacket && (errors.Is(err, errInvalid) || unsupported(err)) {
		err = &UnsupportedError{Feature: "a multicast group of a RawPacket QP",
			Need: "CreateFlow with the group's address in a FlowEth, or of type FlowMulticastDefault",
			Have: "a kernel that has groups of UD QPs alone"}
	}
	if err != nil {
		return &OpError{Op: op, Object: qp.name, Err: err, Detail: "group " + group.String()}
	}
	qp.groups.note(g, attach)
	return nil
}

// callMcast calls the C function that attaches the QP, or detaches it.
func (qp *QP) callMcast(g mcastGroup, attach bool) error {
	if attach {
		return qp.dev.v.AttachMcast(qp.handle, (*abi.GID)(&g.gid), g.lid)
	}
	return qp.dev.v.DetachMcast(qp.handle, (*abi.GID)(&g.gid), g.lid)
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

// note notes that the QP was attached, or detached.
func (m *mcastGroups) note(g mcastGroup, attached bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !attached {
		delete(m.set, g)
		return
	}
	if m.set == nil {
		m.set = make(map[mcastGroup]struct{})
	}
	m.set[g] = struct{}{}
}

// destroy destroys the C object. C refuses while the QP is attached to a group.
// Preconditions: nobody has entered the QP.
func (qp *QP) destroy() error {
	err := qp.make.end(qp.dev, qp.handle)
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	var detached []mcastGroup
	for g := range qp.groups.set {
		if qp.callMcast(g, false) == nil {
			detached = append(detached, g)
		}
	}
	if detached != nil {
		err = qp.make.end(qp.dev, qp.handle)
	}
	if err == nil {
		return nil
	}
	for _, g := range detached {
		_ = qp.callMcast(g, true)
	}
	if qp.typ == UD && errors.Is(err, syscall.EBUSY) {
		return &BusyError{Object: qp.String(),
			Children: []string{"a multicast group that another library attached it to"}}
	}
	return err
}
