package rdmacm

import (
	"errors"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// JoinMulticast joins a group. EventMulticastJoin, which has the address to send to, or
// EventMulticastError follows. A QP of CreateQP is then attached to the group until it is closed. The caller attaches
// any other with AttachMcast(ev.UD.AH.DGID, ev.UD.AH.DLID). JoinSendOnly needs rdma-core v16.
//
// C: rdma_join_multicast(3), rdma_join_multicast_ex(3).
func (id *ID) JoinMulticast(group netip.Addr, flags JoinFlags) error {
	const op = "join multicast"
	return id.bound(op, func() error {
		if !group.IsMulticast() {
			return &ibv.ArgError{Arg: "group", Got: group.String(), Want: "a multicast address"}
		}
		a, err := newSockaddr(netip.AddrPortFrom(group, 0))
		if err != nil {
			return err
		}
		id.own.Lock()
		if id.own.groups == nil {
			id.own.groups = make(map[uintptr]*membership)
		}
		id.own.cookie++
		cookie := id.own.cookie
		id.own.groups[cookie] = &membership{addr: group, sendOnly: flags == JoinSendOnly} // before the event can arrive
		id.own.Unlock()
		if err := id.lib.JoinMulticast(id.handle, &a, uint32(flags), cookie); err != nil {
			id.own.Lock()
			delete(id.own.groups, cookie)
			id.own.Unlock()
			if errors.Is(err, ErrNotSupported) && !group.Unmap().Is4() { // of cma_iboe_join_multicast, without MLD
				err = &ibv.UnsupportedError{Feature: "an IPv6 group on RoCE v2", Need: "an IPv4 group, or RoCE v1",
					Have: "Linux, which announces no such membership"}
			}
			return &ibv.OpError{Op: op, Object: id.name, Err: err, Detail: group.String()}
		}
		return nil
	})
}

// LeaveMulticast leaves a group. The caller detaches a QP that it attached. Close leaves all
// groups.
//
// C: rdma_leave_multicast(3).
func (id *ID) LeaveMulticast(group netip.Addr) error {
	const op = "leave multicast"
	return id.bound(op, func() error {
		a, err := newSockaddr(netip.AddrPortFrom(group, 0))
		if err != nil {
			return err
		}
		if err := id.lib.LeaveMulticast(id.handle, &a); err != nil {
			return &ibv.OpError{Op: op, Object: id.name, Err: err, Detail: group.String()}
		}
		id.own.Lock()
		defer id.own.Unlock()
		for c, g := range id.own.groups {
			if g.addr == group {
				delete(id.own.groups, c)
				break
			}
		}
		return nil
	})
}

func (id *ID) group(cookie uintptr) netip.Addr {
	id.own.Lock()
	defer id.own.Unlock()
	if g := id.own.groups[cookie]; g != nil {
		return g.addr
	}
	return netip.Addr{}
}

// membership is a group that an ID has joined.
type membership struct {
	addr     netip.Addr
	sendOnly bool
	attached bool // librdmacm attached the QP of CreateQP, when it read the event
	gid      abi.GID
	lid      uint16
}

// joined notes that librdmacm has attached the ID's QP, if it has one, to a group.
//
// Preconditions: the channel is locked, and the event is not acknowledged.
func (id *ID) joined(p *abi.RDMAUDParam) {
	id.own.Lock()
	defer id.own.Unlock()
	if g := id.own.groups[p.PrivateData]; g != nil && !g.sendOnly && id.lib.State(id.handle).HasQP {
		g.attached, g.gid, g.lid = true, p.AHAttr.GRH.DGID, p.AHAttr.DLID
	}
}

// detach undoes what librdmacm did for each group when the ID had joined it. A later leave finds the ID without a QP,
// and detaches none. attach undoes detach.
//
// Preconditions: the channel is locked.
func (id *ID) detach(pd *ibv.PD, qp uintptr) (attach func(), some bool) {
	id.own.Lock()
	defer id.own.Unlock()
	var undo []*membership
	for _, g := range id.own.groups {
		if g.attached && verbs.DetachMcast(pd, qp, &g.gid, g.lid) == nil {
			undo = append(undo, g)
		}
	}
	return func() {
		for _, g := range undo {
			_ = verbs.AttachMcast(pd, qp, &g.gid, g.lid)
		}
	}, len(undo) > 0
}

// unattached forgets the attachments of a QP that is gone.
func (id *ID) unattached() {
	id.own.Lock()
	defer id.own.Unlock()
	for _, g := range id.own.groups {
		g.attached = false
	}
}
