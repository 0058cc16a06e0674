package rdmacm

import (
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
)

// JoinMulticast joins a group. EventMulticastJoin, which has the address to send to, or
// EventMulticastError follows. A QP of CreateQP is then attached to the group. The caller attaches
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
			id.own.groups = make(map[uintptr]netip.Addr)
		}
		id.own.cookie++
		cookie := id.own.cookie
		id.own.groups[cookie] = group // before the event can arrive
		id.own.Unlock()
		if flags == JoinFullMember {
			err = id.lib.JoinMulticast(id.handle, &a, cookie)
		} else {
			err = id.lib.JoinMulticastEx(id.handle, &a, uint32(flags), cookie)
		}
		if err != nil {
			id.own.Lock()
			delete(id.own.groups, cookie)
			id.own.Unlock()
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
			if g == group {
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
	return id.own.groups[cookie]
}
