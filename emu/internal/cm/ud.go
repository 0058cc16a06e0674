//go:build linux

package cm

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Q_Keys: of rdma_cm's datagrams, of IP over InfiniBand's.
const (
	qkeyUDP   = 0x01234567
	qkeyIPoIB = 0x00000b1b
)

// setQKey gives an id its Q_Key, which stays; 0 stands for that of the port space.
func (i *id) setQKey(qkey uint32) unix.Errno {
	switch {
	case i.qkey != 0:
		if qkey != 0 && qkey != i.qkey {
			return unix.EINVAL
		}
	case qkey != 0:
		i.qkey = qkey
	case i.ps == psUDP || i.ps == psIB:
		i.qkey = qkeyUDP
	case i.ps == psIPoIB && i.port.Config.LinkLayer == config.InfiniBand:
		i.qkey = qkeyIPoIB
	default:
		return unix.ENODEV
	}
	return 0
}

// sendSIDR accepts a SIDR request with the QP that p names.
func (s *Server) sendSIDR(i *id, p *connParam, x ece) unix.Errno {
	if p.Valid == 0 {
		*p = connParam{}
	}
	if i.cm != cmSidrReqRcvd || int(p.Len) > privateSIDRREP {
		return unix.EINVAL
	}
	if e := i.setQKey(0); e != 0 {
		return e
	}
	i.param, i.ece = *p, x
	peer := i.peer
	if i.toIdle(); peer != nil {
		s.sidrReply(peer, 0, i, p.Private[:p.Len])
	}
	return 0
}

// sidrReply ends an active id's SIDR request: accepted by from, or with a status.
func (s *Server) sidrReply(i *id, status int32, from *id, private []byte) {
	if i.cm != cmSidrReqSent {
		return
	}
	i.toIdle()
	u := udParam{Len: privateSIDRREP}
	copy(u.Private[:], private)
	if status != 0 {
		s.tell(i, evUnreachable, status, uapi.Bytes(&u), ece{})
		return
	}
	if e := i.setQKey(from.qkey); e != 0 {
		s.tell(i, evAddrError, -int32(e), uapi.Bytes(&u), ece{})
		return
	}
	u.QPNum, u.QKey, u.AH = from.param.QPNum&0xffffff, from.qkey, i.ah()
	s.tell(i, evEstablished, 0, uapi.Bytes(&u), from.ece)
}

// mcast is a group that an id joined.
type mcast struct {
	id       *id
	num      uint32
	uid      uint64
	reported uint32
}

func (s *Server) joinIPMcast(r *request, i *id, cmd *joinIP) unix.Errno {
	return s.join(r, i, cmd.Response, cmd.UID, 0, parse(cmd.Addr[:]))
}

func (s *Server) joinMcast(r *request, i *id, cmd *join) unix.Errno {
	a := parse(cmd.Addr[:])
	if cmd.Size == 0 || int(cmd.Size) != a.size() {
		return unix.EINVAL
	}
	return s.join(r, i, cmd.Response, cmd.UID, cmd.Flags, a)
}

func (s *Server) join(r *request, i *id, resp, uid uint64, flags uint16, a address) unix.Errno {
	const fullMember, sendOnly = 0, 1
	if r.out < 4 {
		return unix.ENOSPC
	}
	if a.family != unix.AF_INET && a.family != unix.AF_INET6 || flags != fullMember && flags != sendOnly {
		return unix.EINVAL
	}
	if i.state != stAddrBound && i.state != stAddrResolved || i.qpType != hca.UD {
		return unix.EINVAL
	}
	ah, e := i.group(a)
	if e == 0 {
		e = i.setQKey(0)
	}
	if e != 0 {
		return e
	}
	u := udParam{QPNum: 0xffffff, QKey: i.qkey, AH: ah}
	mc := &mcast{id: i, uid: uid}
	var ok bool
	if mc.num, ok = s.mcs.add(mc); !ok {
		return unix.ENOMEM
	}
	if r.c.Write(resp, uapi.Bytes(&mc.num)) != nil {
		s.mcs.drop(mc.num)
		return unix.EFAULT
	}
	i.mcs[mc] = struct{}{}
	ev := newEvent(i, evMulticastJoin, 0, uapi.Bytes(&u), ece{})
	ev.mc, ev.resp.UID, ev.resp.ID = mc, mc.uid, mc.num
	if i.uid != 0 {
		s.queue(i.file, ev)
	}
	return 0
}

// group is the address of a multicast group's members.
func (i *id) group(a address) (ah uapi.AHAttr, e unix.Errno) {
	if a.zero() {
		return ah, unix.EINVAL
	}
	ah = uapi.AHAttr{GRH: uapi.GlobalRoute{DGID: a.ip.As16(), SGIDIndex: uint8(i.local.index), HopLimit: 64,
		TrafficClass: i.tos},
		IsGlobal: 1, PortNum: uint8(i.port.Number), StaticRate: rate}
	if i.port.Config.LinkLayer == config.InfiniBand {
		g := [16]byte{0xff, 0x12, 0x40, 0x1b}
		if binary.BigEndian.PutUint16(g[4:], pkey(i.port)); a.family == unix.AF_INET {
			copy(g[12:], a.ip.AsSlice())
			g[12] &= 0x0f
		} else {
			ip := a.ip.As16()
			g[1], g[2] = 0x10|ip[1]&0xf, 0x60
			copy(g[6:], ip[6:])
		}
		if i.ps == psUDP {
			g[3] = 0x01
		}
		ah.GRH.DGID, ah.GRH.HopLimit, ah.StaticRate = g, 0, 0
		// The subnet manager gives each group a LID; ours is a function of it.
		ah.DLID = 0xc000 | binary.BigEndian.Uint16(g[14:])&0x3fff
		return ah, 0
	}
	if g := i.port.GID(i.local.index); a.family == unix.AF_INET6 && g != nil && g.Type == config.GIDTypeRoCEv2 {
		return ah, unix.Errno(524) // ENOTSUPP, which the kernel returns as it is: no MLD
	}
	return ah, 0
}

func (s *Server) leaveMcast(r *request, cmd *destroyID) unix.Errno {
	mc := s.mcs.get(cmd.ID)
	if mc == nil {
		return unix.ENOENT
	}
	if mc.id.file != r.fl {
		return unix.EINVAL
	}
	s.mcs.drop(mc.num)
	delete(mc.id.mcs, mc)
	s.drop(r.fl, func(ev *event) bool { return ev.mc == mc })
	return put(r, cmd.Response, &mc.reported, 4)
}
