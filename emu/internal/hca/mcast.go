//go:build linux

package hca

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// groups are the QPs of each multicast group.
type groups struct{ members map[[16]byte][]*QP }

var groupPart = newPart[groups]()

// full reports whether a group cannot be one of most.
func (t *groups) full(gid [16]byte, most int) bool {
	return len(t.members) >= most && t.members[gid] == nil
}

func (t *groups) join(gid [16]byte, qp *QP) {
	if t.members == nil {
		t.members = map[[16]byte][]*QP{}
	}
	t.members[gid] = append(t.members[gid], qp)
}

func (t *groups) leave(gid [16]byte, qp *QP) {
	left := slices.DeleteFunc(t.members[gid], func(o *QP) bool { return o == qp })
	if len(left) == 0 {
		delete(t.members, gid)
	} else {
		t.members[gid] = left
	}
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

// Attach makes a UD QP a member of a multicast group.
func (qp *QP) Attach(gid [16]byte, mlid uint16) unix.Errno {
	d := qp.Context.Device
	all := groupPart.of(&d.parts)
	switch {
	case slices.Contains(qp.uses.mcast, group{gid, mlid}):
		return 0
	case qp.Type != UD || !Multicast(&gid) || !qp.takesMLID(mlid):
		return unix.EINVAL
	case all.full(gid, d.Config.Limits.MaxMcast):
		return unix.ENOMEM
	}
	qp.uses.mcast = append(qp.uses.mcast, group{gid, mlid})
	all.join(gid, qp)
	qp.Hold(1)
	return 0
}

// Detach undoes Attach.
func (qp *QP) Detach(gid [16]byte, mlid uint16) unix.Errno {
	i := slices.Index(qp.uses.mcast, group{gid, mlid})
	if i < 0 {
		return unix.EINVAL
	}
	qp.uses.mcast = slices.Delete(qp.uses.mcast, i, i+1)
	groupPart.of(&qp.Context.Device.parts).leave(gid, qp)
	qp.Hold(-1)
	return 0
}

// Multicast reports whether a GID is a group's: an IPv6 one, or an IPv4 one mapped, as RoCE v2 has them. C:
// rdma_is_multicast_addr.
func Multicast(gid *[16]byte) bool {
	a := netip.AddrFrom16(*gid)
	return a.Unmap().IsMulticast()
}

// Group returns the QPs of a multicast group.
func (d *Device) Group(gid [16]byte) []*QP { return groupPart.of(&d.parts).members[gid] }
