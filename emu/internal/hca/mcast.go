//go:build linux

package hca

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// group is what a QP is attached to.
type group struct {
	gid [16]byte
	lid uint16
}

// takesMLID reports whether the multicast LID is right for the QP: on RoCE it does not matter, nor where the QP may
// come to be on RoCE yet. C: is_valid_mcast_lid.
func (qp *QP) takesMLID(lid uint16) bool {
	const first, permissive = 0xc000, 0xffff
	d := qp.Context.Device
	roce := d.ethernet()
	if p := d.port(qp.Attr.Port); p != nil && qp.State != Reset {
		roce = p.roce()
	}
	return roce || lid >= first && lid != permissive
}

// AttachMcast makes a UD QP a member of a multicast group.
func (c *Context) AttachMcast(handle uint32, gid [16]byte, mlid uint16) unix.Errno {
	qp, e := c.QP(handle)
	switch {
	case e != 0:
		return e
	case slices.Contains(qp.mcast, group{gid, mlid}):
		return 0
	case qp.Type != UD || !Multicast(&gid) || !qp.takesMLID(mlid):
		return unix.EINVAL
	case len(c.Device.groups) >= c.Device.Config.Limits.MaxMcast && c.Device.groups[gid] == nil:
		return unix.ENOMEM
	}
	qp.mcast = append(qp.mcast, group{gid, mlid})
	c.Device.groups[gid] = append(c.Device.groups[gid], qp)
	return 0
}

// DetachMcast undoes AttachMcast.
func (c *Context) DetachMcast(handle uint32, gid [16]byte, mlid uint16) unix.Errno {
	qp, e := c.QP(handle)
	if e != 0 {
		return e
	}
	i := slices.Index(qp.mcast, group{gid, mlid})
	if i < 0 {
		return unix.EINVAL
	}
	qp.mcast = slices.Delete(qp.mcast, i, i+1)
	c.Device.leave(gid, qp)
	return 0
}

func (d *Device) leave(gid [16]byte, qp *QP) {
	left := slices.DeleteFunc(d.groups[gid], func(o *QP) bool { return o == qp })
	if len(left) == 0 {
		delete(d.groups, gid)
	} else {
		d.groups[gid] = left
	}
}

// Multicast reports whether a GID is a group's: an IPv6 one, or an IPv4 one mapped, as RoCE v2 has them. C:
// rdma_is_multicast_addr.
func Multicast(gid *[16]byte) bool {
	a := netip.AddrFrom16(*gid)
	return a.Unmap().IsMulticast()
}

// Group returns the QPs of a multicast group.
func (d *Device) Group(gid [16]byte) []*QP { return d.groups[gid] }
