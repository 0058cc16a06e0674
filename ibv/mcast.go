package ibv

import (
	"errors"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// AttachMcast makes a UD QP receive the messages sent to a multicast group. lid is the LID of
// the group, 0 on RoCE. Frames of a group get to a RawPacket QP by CreateFlow.
//
// C: ibv_attach_mcast(3).
func (qp *QP) AttachMcast(group GID, lid uint16) error {
	return qp.groups.change(qp, "attach mcast", true, group, lid)
}

// DetachMcast undoes AttachMcast.
//
// C: ibv_detach_mcast(3).
func (qp *QP) DetachMcast(group GID, lid uint16) error {
	return qp.groups.change(qp, "detach mcast", false, group, lid)
}

// change attaches the QP to a group, or detaches it.
func (m *mcastGroups) change(qp *QP, op string, attach bool, group GID, lid uint16) error {
	if err := qp.enterStates(op); err != nil {
		return err
	}
	defer qp.leave()
	if qp.typ == DCT {
		return &OpError{Op: op, Object: qp.name, Err: &ArgError{Arg: "qp", Got: "a DCT", Want: "a UD QP"}}
	}
	g := mcastGroup{group, lid}
	err := g.call(qp, attach)
	if qp.typ == RawPacket && (errors.Is(err, errInvalid) || unsupported(err)) {
		err = &UnsupportedError{Feature: "a multicast group of a RawPacket QP",
			Need: "CreateFlow with the group's address in a FlowEth, or of type FlowMulticastDefault",
			Have: "a kernel that has groups of UD QPs alone"}
	}
	if err = qp.dev.usedUp(err, "multicast groups", qp.dev.attr.MaxMcastGroups); err != nil {
		return &OpError{Op: op, Object: qp.name, Err: err, Detail: "group " + group.String()}
	}
	m.note(g, attach)
	return nil
}

// call calls the C function that attaches the QP, or detaches it.
func (g *mcastGroup) call(qp *QP, attach bool) error {
	if attach {
		return qp.dev.v.AttachMcast(qp.handle, (*abi.GID)(&g.gid), g.lid)
	}
	return qp.dev.v.DetachMcast(qp.handle, (*abi.GID)(&g.gid), g.lid)
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
