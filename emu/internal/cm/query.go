//go:build linux

package cm

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Attributes of every route here: 4.096 µs·2^18 for a packet's life and the rate code that the kernel gives fast
// Ethernet.
const (
	packetLife = 18
	rate       = 7
)

// life is the route's packet life time, which an acknowledge timeout that was asked for decides.
func (i *id) life() uint8 {
	if i.ackSet && i.ackTimeout > 0 {
		return i.ackTimeout - 1
	}
	return packetLife
}

func (i *id) qpTimeout() uint8 { return i.life() + 1 }

// flowLabel returns a hash of the ports, from which RoCE v2 makes its UDP source port.
func (i *id) flowLabel() uint32 {
	if i.port.Config.LinkLayer == config.InfiniBand {
		return 0
	}
	if i.src.flow&0xfffff != 0 {
		return i.src.flow & 0xfffff
	}
	return (uint32(i.src.port)*31 + uint32(i.dst.port)) & 0xfffff
}

// ah returns the address of the other end.
func (i *id) ah() uapi.AHAttr {
	ah := uapi.AHAttr{PortNum: uint8(i.port.Number)}
	if i.port.Config.LinkLayer == config.InfiniBand {
		ah.DLID = lid(i.remote.port)
	} else {
		ah.StaticRate = rate
	}
	if hops := i.hops(); hops > 0 {
		ah.IsGlobal = 1
		ah.GRH = uapi.GlobalRoute{DGID: i.remote.gid, FlowLabel: i.flowLabel(), SGIDIndex: uint8(i.local.index),
			HopLimit: hops, TrafficClass: i.tos}
	}
	return ah
}

// hops is the limit of a route, 0 of one without a GRH. On InfiniBand the subnet administration decides it.
// C: ib_init_ah_attr_from_path.
func (i *id) hops() uint8 {
	to := i.remote.port
	if to == nil {
		to = i.port
	}
	if i.port.Reaches(to, false) {
		return 0
	}
	return 64
}

func lid(p *hca.Port) uint16 {
	if p == nil {
		return 0
	}
	return p.Config.LID
}

func be16(v uint16) (b [2]byte) {
	binary.BigEndian.PutUint16(b[:], v)
	return b
}

func (i *id) path() pathRec {
	p := pathRec{DGID: i.remote.gid, SGID: i.local.gid, PKey: be16(pkey(i.port))}
	if !i.routed {
		return p
	}
	p.DLID, p.SLID = be16(lid(i.remote.port)), be16(i.port.Config.LID)
	binary.BigEndian.PutUint32(p.FlowLabel[:], i.flowLabel())
	p.Reversible, p.MTU, p.MTUSelector, p.RateSelector, p.PacketLifeTimeSelector = 1, uint32(i.mtu), 2, 2, 2
	p.TrafficClass, p.NumbPath, p.Rate, p.PacketLifeTime = i.tos, 1, rate, i.life()
	p.HopLimit = i.hops()
	return p
}

func (i *id) paths() uint32 {
	if i.routed {
		return 1
	}
	return 0
}

// noIndex is the answer of a kernel without device indices. The library learns them by netlink, which does not exist
// here, and some versions match both.
const noIndex = ^uint32(0)

func (s *Server) queryRoute(r *request, i *id, cmd *query) unix.Errno {
	if r.out < routeRespMin {
		return unix.ENOSPC
	}
	var resp queryRouteResp
	i.src.write(resp.Src[:])
	i.dst.write(resp.Dst[:])
	if i.port != nil {
		resp.NodeGUID = i.port.Device.Config.NodeGUID.Bytes()
		resp.Port, resp.DeviceIndex = uint8(i.port.Number), noIndex
		resp.NumPaths, resp.Route[0] = i.paths(), i.path()
	}
	return put(r, cmd.Response, &resp, routeRespMin)
}

func (s *Server) query(r *request, i *id, cmd *query) unix.Errno {
	const optAddr, optPath, optGID = 0, 1, 2
	if cmd.Option == optPath {
		return i.queryPath(r, cmd.Response)
	}
	var resp queryAddrResp
	if i.port != nil {
		resp.NodeGUID = i.port.Device.Config.NodeGUID.Bytes()
		resp.Port, resp.DeviceIndex, resp.PKey = uint8(i.port.Number), noIndex, be16(pkey(i.port))
	}
	switch cmd.Option {
	case optAddr:
		resp.SrcSize, resp.DstSize = uint16(i.src.size()), uint16(i.dst.size())
		i.src.write(resp.Src[:])
		i.dst.write(resp.Dst[:])
	case optGID:
		for _, x := range []struct {
			a    *address
			gid  [16]byte
			b    []byte
			size *uint16
		}{{&i.src, i.local.gid, resp.Src[:], &resp.SrcSize}, {&i.dst, i.remote.gid, resp.Dst[:], &resp.DstSize}} {
			sib := sockaddrIB{Family: afIB, PKey: resp.PKey, Addr: x.gid}
			binary.BigEndian.PutUint64(sib.SID[:], uint64(i.ps)<<16|uint64(x.a.port))
			*x.size = uint16(copy(x.b, uapi.Bytes(&sib)))
		}
	default:
		return unix.ENOSYS
	}
	return put(r, cmd.Response, &resp, addrRespMin)
}

// queryPath returns the routes as path records of the subnet administration.
func (i *id) queryPath(r *request, addr uint64) unix.Errno {
	if r.out < pathRespHeader {
		return unix.ENOSPC
	}
	b := make([]byte, pathRespHeader, pathRespHeader+pathRecordSize)
	binary.NativeEndian.PutUint32(b, i.paths())
	if i.routed && r.out-pathRespHeader > pathRecordSize {
		const primary = 1 | 2 | 8 | 32
		b = b[:cap(b)]
		p := i.path()
		binary.NativeEndian.PutUint32(b[8:], primary)
		rec := b[16:]
		binary.BigEndian.PutUint64(rec, uint64(i.ps)<<16|uint64(i.dst.port))
		copy(rec[8:], p.DGID[:])
		copy(rec[24:], p.SGID[:])
		copy(rec[40:], p.DLID[:])
		copy(rec[42:], p.SLID[:])
		binary.BigEndian.PutUint32(rec[44:], i.flowLabel()<<8|uint32(p.HopLimit))
		rec[48], rec[49] = p.TrafficClass, 1<<7|p.NumbPath
		copy(rec[50:], p.PKey[:])
		const exactly = 2 << 6
		rec[54], rec[55], rec[56] = exactly|uint8(p.MTU), exactly|p.Rate, exactly|p.PacketLifeTime
	}
	if r.c.Write(addr, b) != nil {
		return unix.EFAULT
	}
	return 0
}

// initQPAttr returns the attributes that take an id's QP to its next state.
func (s *Server) initQPAttr(r *request, i *id, cmd *query) unix.Errno {
	if r.out < uapi.Size[qpAttr]() {
		return unix.ENOSPC
	}
	if cmd.Option > uint32(hca.Err) {
		return unix.EINVAL
	}
	a := qpAttr{State: cmd.Option}
	var mask hca.AttrMask
	if i.cm == cmNone || i.qpType == hca.UD {
		a.Port = uint8(i.port.Number)
		mask = hca.AttrState | hca.AttrPKeyIndex | hca.AttrPort
		if i.qpType == hca.UD {
			if e := i.setQKey(0); e != 0 {
				return e
			}
			a.QKey = i.qkey
			mask |= hca.AttrQKey
		} else {
			mask |= hca.AttrAccess
		}
	} else if m, e := i.connAttr(&a); e == 0 {
		mask = m
	} else {
		return e
	}
	if hca.QPState(a.State) == hca.RTR {
		a.RQPSN = i.psn
	}
	a.Mask = uint32(mask)
	return put(r, cmd.Response, &a, uapi.Size[qpAttr]())
}

// connAttr fills in the attributes of a connection's QP.
func (i *id) connAttr(a *qpAttr) (mask hca.AttrMask, e unix.Errno) {
	sent := i.cm == cmReqSent
	if !sent && (i.cm < cmReqRcvd || i.cm > cmEstablished) {
		return 0, unix.EINVAL
	}
	switch next := hca.QPState(a.State); {
	case next == hca.Init:
		a.Access = uint32(hca.AccessRemoteWrite)
		if i.respRes > 0 {
			a.Access |= uint32(hca.AccessRemoteRead | hca.AccessRemoteAtomic)
		}
		a.Port = uint8(i.port.Number)
		return hca.AttrState | hca.AttrAccess | hca.AttrPKeyIndex | hca.AttrPort, 0
	case next == hca.RTR && !sent:
		mask = hca.AttrState | hca.AttrAV | hca.AttrPathMTU | hca.AttrDestQPN | hca.AttrRQPSN
		a.AH, a.PathMTU, a.DestQPN, a.RQPSN = i.ah(), uint32(i.mtu), i.remoteQPN, i.psn
		if i.qpType == hca.RC || i.qpType == hca.XRCRecv {
			mask |= hca.AttrMaxDestRdAtomic | hca.AttrMinRNRTimer
			a.MaxDestRdAtomic = i.respRes
		}
		return mask, 0
	case next == hca.RTS && !sent:
		mask = hca.AttrState | hca.AttrSQPSN
		a.SQPSN = i.sqPSN
		if i.qpType == hca.RC || i.qpType == hca.XRCSend {
			mask |= hca.AttrRetryCnt | hca.AttrRNRRetry | hca.AttrMaxRdAtomic
			a.RetryCnt, a.RNRRetry, a.MaxRdAtomic = i.retry, i.rnrRetry, i.initDepth
		}
		if i.qpType == hca.RC || i.qpType == hca.XRCSend || i.qpType == hca.XRCRecv {
			mask |= hca.AttrTimeout
			a.Timeout = i.qpTimeout()
			if i.ackSet {
				a.Timeout = i.ackTimeout // 0 too
			}
		}
		return mask, 0
	}
	return 0, unix.EINVAL
}
