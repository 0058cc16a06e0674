//go:build linux

package cm

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// state is how far an id is, as rdma_cm sees it. C: enum rdma_cm_state, of the kernel's own.
type state uint8

const (
	stIdle          state = 0
	stAddrQuery     state = 1
	stAddrResolved  state = 2
	stRouteResolved state = 4
	stConnect       state = 5
	stDisconnect    state = 6
	stAddrBound     state = 7
	stListen        state = 8
	stRemoved       state = 9
	stDestroyed     state = 10
)

// id is a communication identifier. C: struct rdma_cm_id.
type id struct {
	file     *file
	num      uint32
	uid      uint64
	hidden   bool // its CONNECT_REQUEST was not fetched yet
	closing  bool // its device is gone
	ps       uint16
	qpType   hca.QPType
	state    state
	src, dst address
	owned    bool // has src.port
	port     *hca.Port
	local    place
	remote   place
	routed   bool
	backlog  uint32
	reported uint32 // events fetched
	mcs      map[*mcast]struct{}
	timer    *time.Timer
	timing   uint32 // which timer is the latest

	reuse, afonly, afonlySet bool
	tos, ackTimeout          uint8
	ackSet                   bool
	qkey                     uint32

	conn
}

func (s *Server) createID(r *request, cmd *createID) unix.Errno {
	typ := hca.QPType(cmd.QPType)
	switch cmd.PS {
	case psTCP:
		typ = hca.RC
	case psUDP, psIPoIB:
		typ = hca.UD
	case psIB:
	default:
		return unix.EINVAL
	}
	i := s.newID(r.fl, cmd.PS, typ)
	if i == nil {
		return unix.ENOMEM
	}
	i.uid, r.id = cmd.UID, i.num
	if r.c.Write(cmd.Response, uapi.Bytes(&i.num)) != nil {
		s.destroy(i)
		return unix.EFAULT
	}
	return 0
}

func (s *Server) newID(fl *file, ps uint16, typ hca.QPType) *id {
	i := &id{file: fl, ps: ps, qpType: typ, mcs: map[*mcast]struct{}{}, conn: conn{psn: rand.Uint32N(1 << 24)}}
	var ok bool
	if i.num, ok = s.ids.add(i); !ok {
		return nil
	}
	fl.ids[i] = struct{}{}
	return i
}

func (i *id) moveTo(fl *file) {
	delete(i.file.ids, i)
	i.file = fl
	fl.ids[i] = struct{}{}
}

// attach gives an id its device.
func (i *id) attach(pl place) { i.port, i.local = pl.port, pl }

// after runs f later, lock held, unless the id was given another timer or destroyed by then.
func (i *id) after(d time.Duration, f func()) {
	i.stop()
	s, mine := i.file.s, i.timing
	i.timer = time.AfterFunc(d, func() {
		s.f.Lock()
		defer s.f.Unlock()
		if i.timing == mine && i.state != stDestroyed {
			f()
		}
	})
}

func (i *id) stop() {
	i.timing++
	if i.timer != nil {
		i.timer.Stop()
		i.timer = nil
	}
}

func (s *Server) destroyID(r *request, cmd *destroyID) unix.Errno {
	r.id = cmd.ID
	i, e := s.find(r.fl, cmd.ID)
	if e != 0 && e != unix.EIO {
		return e
	}
	s.destroy(i)
	s.drop(r.fl, func(ev *event) bool { return ev.owner == i })
	return put(r, cmd.Response, &i.reported, 4)
}

// destroy ends an id and tells its peer. The caller sees to undelivered events.
func (s *Server) destroy(i *id) {
	if i.state == stDestroyed {
		return
	}
	s.leave(i)
	i.state = stDestroyed
	i.stop()
	s.disown(i)
	for mc := range i.mcs {
		s.mcs.drop(mc.num)
	}
	s.ids.drop(i.num)
	delete(i.file.ids, i)
}

func (s *Server) resolveRoute(_ *request, i *id, _ *idAndNumber) unix.Errno { return s.setRoute(i) }

func (s *Server) setRoute(i *id) unix.Errno {
	if i.state != stAddrResolved {
		return unix.EINVAL
	}
	i.state, i.routed = stRouteResolved, true
	i.mtu = i.port.Config.ActiveMTU
	s.emit(i, evRouteResolved, 0, nil, ece{})
	return 0
}

func (s *Server) setOption(r *request, i *id, cmd *setOption) unix.Errno {
	if cmd.Len > maxOption {
		return unix.EINVAL
	}
	v := make([]byte, cmd.Len)
	if r.c.Read(cmd.Value, v) != nil {
		return unix.EFAULT
	}
	const (
		levelID, levelIB                               = 0, 1
		optTOS, optReuseAddr, optAFOnly, optAckTimeout = 0, 1, 2, 3
		optIBPath                                      = 1
	)
	on := len(v) == 4 && binary.NativeEndian.Uint32(v) != 0
	switch {
	case cmd.Level == levelIB && cmd.Name == optIBPath:
		return s.setPath(i, v)
	case cmd.Level != levelID || cmd.Name > optAckTimeout:
		return unix.ENOSYS
	case (cmd.Name == optTOS || cmd.Name == optAckTimeout) != (len(v) == 1), len(v) != 1 && len(v) != 4:
		return unix.EINVAL
	case cmd.Name == optTOS:
		i.tos = v[0]
	case cmd.Name == optReuseAddr:
		if !on && i.state != stIdle {
			return unix.EINVAL
		}
		i.reuse = on
	case cmd.Name == optAFOnly:
		if i.state != stIdle && i.state != stAddrBound {
			return unix.EINVAL
		}
		i.afonly, i.afonlySet = on, true
	default:
		if i.qpType != hca.RC && i.qpType != hca.XRCSend {
			return unix.EINVAL
		}
		i.ackTimeout, i.ackSet = v[0], true
	}
	return 0
}

// setPath takes a route that user space found itself; on the emulated fabric it can be no other than ours.
func (s *Server) setPath(i *id, v []byte) unix.Errno {
	const primary = 1 | 2 | 8 | 32 // GMP, primary, outbound, inbound reverse
	for ; ; v = v[pathRecordSize:] {
		if len(v)%pathRecordSize != 0 || len(v) == 0 {
			return unix.EINVAL
		}
		if binary.NativeEndian.Uint32(v) == primary {
			break
		}
	}
	if i.port == nil {
		return unix.EINVAL
	}
	return s.setRoute(i)
}

// DeviceRemoved tells all ids of a device that it is gone, lock held. Afterwards they accept only DESTROY_ID.
func (s *Server) DeviceRemoved(d *hca.Device) {
	var gone []*id
	for _, p := range s.ids.slots {
		if p != nil && p.port != nil && p.port.Device == d && !p.closing {
			gone = append(gone, p)
			p.state = stRemoved // before their peers hear of it
		}
	}
	for _, i := range gone {
		s.leave(i)
		i.stop()
		i.closing = true
		if i.hidden {
			s.drop(i.file, func(ev *event) bool { return ev.conn == i })
			continue
		}
		s.emit(i, evDeviceRemoval, 0, nil, ece{})
	}
}

// pkey returns the P_Key that the ids of a port use: entry 0, or the default partition on Ethernet.
func pkey(p *hca.Port) uint16 {
	if p.Config.LinkLayer == config.Ethernet {
		return 0xffff
	}
	return p.PKey(0)
}
