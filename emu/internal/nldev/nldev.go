//go:build linux

package nldev

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/cm"
	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/netdev"
	"github.com/pureverbs/pureverbs/emu/internal/sysfs"
)

// client is RDMA_NL_NLDEV, which leads a message's type.
const client = 5

// Commands. C: enum rdma_nldev_command.
const (
	cmdGet     = 1
	cmdPortGet = 5
	cmdSysGet  = 6
	cmdResGet  = 9
	cmdChardev = 15
	cmdStatGet = 17
	cmdStatus  = 24
)

// Attributes. C: enum rdma_nldev_attr.
const (
	attrDevIndex     = 1
	attrDevName      = 2
	attrPortIndex    = 3
	attrCapFlags     = 4
	attrFWVersion    = 5
	attrNodeGUID     = 6
	attrSysImageGUID = 7
	attrSubnetPrefix = 8
	attrLID          = 9
	attrSMLID        = 10
	attrLMC          = 11
	attrPortState    = 12
	attrPhysState    = 13
	attrNodeType     = 14
	attrNdevIndex    = 50
	attrNdevName     = 51
	attrNetnsMode    = 66
	attrProtocol     = 67
	attrChardevType  = 69
	attrChardevName  = 70
	attrChardevABI   = 71
	attrChardev      = 72
	attrDriver       = 73
)

// MaxRequest is the length of a request that is looked at.
const MaxRequest = 4096

// most is the length of a datagram of a dump: the kernel's, which programs have room for.
const most = 3776

// Server answers for the devices of a fabric.
type Server struct {
	Fabric *hca.Fabric
	CM     *cm.Server // nil without ids
}

// Answer returns the datagrams that the kernel would send to the socket with a port id for what was sent by it. Only
// who has CAP_NET_ADMIN, admin, sees keys. The fabric's lock is held.
func (s *Server) Answer(port uint32, admin bool, sent []byte) (out [][]byte) {
	netdev.Split(sent, func(header, body []byte) {
		r := request{s: s, f: s.Fabric, admin: admin, port: port, seq: binary.NativeEndian.Uint32(header[8:])}
		r.typ, r.flags = binary.NativeEndian.Uint16(header[4:]), binary.NativeEndian.Uint16(header[6:])
		if r.flags&unix.NLM_F_REQUEST != 0 && r.typ >= unix.NLMSG_MIN_TYPE {
			r.attrs(body)
			r.answer(header)
			out = append(out, r.out...)
		}
	})
	return out
}

type request struct {
	netdev.Message // the datagram that is being filled

	s          *Server
	f          *hca.Fabric
	admin      bool
	port, seq  uint32
	typ, flags uint16
	num        map[uint16]int // attributes that are a number
	kind       string         // attrChardevType
	out        [][]byte       // those that are full
}

func (r *request) attrs(b []byte) {
	r.num = map[uint16]int{}
	netdev.Attrs(b, func(typ uint16, v []byte) {
		switch {
		case typ == attrChardevType:
			r.kind = string(bytes.TrimRight(v, "\x00"))
		case len(v) == 4:
			r.num[typ] = int(binary.NativeEndian.Uint32(v))
		}
	})
}

func (r *request) dumps() bool { return r.flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP }

func (r *request) answer(header []byte) {
	e := r.run(int(r.typ) & 0x3ff)
	if r.dumps() && e == 0 {
		r.message(unix.NLMSG_DONE, func() { r.Message = append(r.Message, 0, 0, 0, 0) })
		r.flush()
		return
	}
	if e == 0 {
		r.flush()
	}
	if e != 0 || r.flags&unix.NLM_F_ACK != 0 {
		r.Message, r.flags = nil, r.flags&^unix.NLM_F_DUMP
		r.message(unix.NLMSG_ERROR, func() {
			r.Message = binary.NativeEndian.AppendUint32(r.Message, uint32(-int32(e)))
			r.Message = append(r.Message, header...)
		})
		r.flush()
	}
}

func (r *request) flush() {
	if len(r.Message) > 0 {
		r.out = append(r.out, r.Message)
	}
	r.Message = nil
}

func (r *request) run(cmd int) unix.Errno {
	dump := r.dumps()
	switch {
	case r.typ>>10 != client:
		return unix.EINVAL
	case cmd == cmdChardev && !dump:
		return r.chardev()
	case cmd == cmdSysGet && !dump:
		r.message(r.typ, func() { r.Attr(attrNetnsMode, []byte{1}) }) // shared
		return 0
	case cmd == cmdGet && dump, cmd == cmdResGet && dump:
		for _, d := range r.f.Devices {
			if d.Gone {
				continue
			}
			if cmd == cmdGet {
				r.device(d)
			} else {
				r.summary(d)
			}
		}
		return 0
	case cmd == cmdStatGet && dump:
		return r.statistics()
	}
	t, isTable := tables[cmd]
	switch {
	case isTable, cmd == cmdGet, cmd == cmdPortGet, cmd == cmdResGet, cmd == cmdStatGet, cmd == cmdStatus && !dump:
	default:
		return unix.EOPNOTSUPP
	}
	d := r.named()
	if d == nil {
		return unix.EINVAL
	}
	port, told := r.num[attrPortIndex]
	if told && (port < 1 || port > len(d.Ports)) || cmd == cmdPortGet && !dump && !told {
		return unix.EINVAL
	}
	switch {
	case isTable:
		return r.table(d, t, port)
	case cmd == cmdGet:
		r.device(d)
	case cmd == cmdResGet:
		r.summary(d)
	case cmd == cmdStatGet:
		return r.statistic(d, port)
	case cmd == cmdStatus:
		return r.optional(d, port)
	case dump:
		for _, p := range d.Ports {
			r.link(p)
		}
	default:
		r.link(d.Ports[port-1])
	}
	return 0
}

// named returns the device that the request names, nil if there is none.
func (r *request) named() *hca.Device {
	i, ok := r.num[attrDevIndex]
	if !ok || i < 0 || i >= len(r.f.Devices) || r.f.Devices[i].Gone {
		return nil
	}
	return r.f.Devices[i]
}

// message appends one, to a datagram of its own if this one has no room for it.
func (r *request) message(typ uint16, body func()) {
	before, flags := r.Message, 0
	if r.dumps() {
		flags = unix.NLM_F_MULTI
	}
	r.Message = make([]byte, unix.SizeofNlMsghdr)
	body()
	h := r.Message
	binary.NativeEndian.PutUint32(h, uint32(len(h)))
	binary.NativeEndian.PutUint16(h[4:], typ)
	binary.NativeEndian.PutUint16(h[6:], uint16(flags))
	binary.NativeEndian.PutUint32(h[8:], r.seq)
	binary.NativeEndian.PutUint32(h[12:], r.port)
	if len(before)+len(h) <= most {
		r.Message = append(before, h...)
	} else if len(before) > 0 {
		r.out = append(r.out, before)
	}
}

// about appends a message about a device.
func (r *request) about(d *hca.Device, body func()) {
	r.message(r.typ, func() {
		r.U32(attrDevIndex, uint32(d.Index))
		r.Text(attrDevName, d.Config.Name)
		body()
	})
}

func (r *request) device(d *hca.Device) {
	r.about(d, func() {
		r.U32(attrPortIndex, uint32(len(d.Ports)))
		r.Text(attrFWVersion, d.Config.FirmwareVersion)
		r.U64(attrNodeGUID, uint64(d.Config.NodeGUID))
		r.U64(attrSysImageGUID, uint64(d.Config.NodeGUID))
		r.Attr(attrNodeType, []byte{1}) // a channel adapter
		protocol := "roce"
		if d.Ports[0].Config.LinkLayer == config.InfiniBand {
			protocol = "ib"
		}
		r.Text(attrProtocol, protocol)
	})
}

// chardev names the device file of verbs, as Linux does from 5.1 on.
func (r *request) chardev() unix.Errno {
	d := r.named()
	switch {
	case d == nil:
		return unix.EINVAL
	case d.Config.ABI == config.ABIWrite: // an older kernel
		return unix.EOPNOTSUPP
	case r.kind == "":
		return unix.EINVAL
	case r.kind != "uverbs":
		return unix.ENOENT
	}
	r.message(r.typ, func() {
		minor := uint32(sysfs.UverbsMinor + d.Index)
		r.U64(attrChardev, unix.Mkdev(sysfs.UverbsMajor, minor))
		r.U64(attrChardevABI, 1)
		r.Text(attrChardevName, "uverbs"+strconv.Itoa(d.Index))
		r.U32(attrDriver, 1) // RDMA_DRIVER_MLX5
	})
	return 0
}

func (r *request) link(p *hca.Port) {
	c := p.Config
	r.about(p.Device, func() {
		r.U32(attrPortIndex, uint32(p.Number))
		if c.LinkLayer == config.InfiniBand {
			r.U64(attrCapFlags, uint64(c.CapFlags))
			if g := p.GID(0); g != nil {
				r.U64(attrSubnetPrefix, binary.BigEndian.Uint64(g.GID[:]))
			}
			r.U32(attrLID, uint32(c.LID))
			r.U32(attrSMLID, uint32(c.SMLID))
			r.Attr(attrLMC, []byte{c.LMC})
		}
		state, phys := config.PortStates(p.Active)
		r.Attr(attrPortState, []byte{byte(state)})
		r.Attr(attrPhysState, []byte{byte(phys)})
		if i := r.f.Config.IfIndex(c.Netdev); i != 0 {
			r.U32(attrNdevIndex, uint32(i))
			r.Text(attrNdevName, c.Netdev)
		}
	})
}
