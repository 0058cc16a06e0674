package ucma

import (
	"slices"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// JoinMulticast is rdma_join_multicast_ex.
func (c *CM) JoinMulticast(h control.Handle, a *sockaddr.Addr, flags uint32, cookie uintptr) error {
	addr, size, err := sized(a)
	switch {
	case err != nil:
		return err
	case flags > abi.RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER:
		return syscall.EINVAL
	}
	return c.with(h, func(w usercm.Writer, i *id) error {
		g := &group{handle: c.handle(), id: i, cookie: cookie, addr: addr,
			sendOnly: flags == abi.RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER}
		c.groups.put(g.handle, g) // before the event can come
		q := abi.UCMJoinMcast{UID: uint64(g.handle), ID: i.number, AddrSize: size, JoinFlags: uint16(flags), Addr: addr}
		var err error
		if g.number, err = number(w, usercm.CmdJoinMcast, &q, &q.Response); err != nil {
			c.groups.drop(g.handle)
			return err
		}
		i.mu.Lock()
		i.groups = append(i.groups, g)
		i.mu.Unlock()
		return nil
	})
}

// LeaveMulticast is rdma_leave_multicast. It detaches the QP that the event of the join has attached.
func (c *CM) LeaveMulticast(h control.Handle, a *sockaddr.Addr) error {
	addr, size, err := sized(a)
	if err != nil {
		return err
	}
	var left *group
	reported := uint32(0)
	err = c.with(h, func(w usercm.Writer, i *id) (err error) {
		if left = i.group(addr[:size]); left == nil {
			return syscall.EADDRNOTAVAIL
		}
		reported, err = destroy(w, usercm.CmdLeaveMcast, left.number)
		return err
	})
	if err != nil {
		return err
	}
	i := left.id
	c.acks.settle(&left.events, reported, &i.now().ch.reading) // an event that was read may attach the QP
	c.groups.drop(left.handle)
	i.mu.Lock()
	i.groups = slices.DeleteFunc(i.groups, func(g *group) bool { return g == left })
	qp, gid, lid := i.qp.handle, left.mgid, left.mlid
	attached := left.joined && !left.sendOnly && qp != 0
	i.mu.Unlock()
	if attached {
		_ = c.v.DetachMcast(qp, &gid, lid)
	}
	return nil
}
