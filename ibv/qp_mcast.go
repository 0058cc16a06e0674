package ibv

import (
	"errors"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind/libibverbs"
)

// AttachMcast makes a UD QP receive the messages sent to a multicast group. lid is the LID of
// the group, 0 on RoCE. Frames of a group get to a RawPacket QP by CreateFlow.
//
// C: ibv_attach_mcast(3).
func (qp *QP) AttachMcast(group GID, lid uint16) error {
	return qp.mcast("attach mcast", libibverbs.Lib.AttachMcast, group, lid)
}

// DetachMcast undoes AttachMcast.
//
// C: ibv_detach_mcast(3).
func (qp *QP) DetachMcast(group GID, lid uint16) error {
	return qp.mcast("detach mcast", libibverbs.Lib.DetachMcast, group, lid)
}

func (qp *QP) mcast(op string, call func(libibverbs.Lib, uintptr, *abi.GID, uint16) error, group GID,
	lid uint16) error {
	if err := qp.enterStates(op); err != nil {
		return err
	}
	defer qp.leave()
	if qp.typ == DCT {
		return &OpError{Op: op, Object: qp.name, Err: &ArgError{Arg: "qp", Got: "a DCT", Want: "a UD QP"}}
	}
	err := call(qp.dev.v.Lib, qp.handle, (*abi.GID)(&group), lid)
	if qp.typ == RawPacket && (errors.Is(err, errInvalid) || unsupported(err)) {
		err = &UnsupportedError{Feature: "a multicast group of a RawPacket QP",
			Need: "CreateFlow with the group's address in a FlowEth, or of type FlowMulticastDefault",
			Have: "a kernel that has groups of UD QPs alone"}
	}
	err = qp.dev.usedUp(err, "multicast groups", qp.dev.attr.MaxMcastGroups)
	if err != nil {
		return &OpError{Op: op, Object: qp.name, Err: err, Detail: "group " + group.String()}
	}
	return nil
}
