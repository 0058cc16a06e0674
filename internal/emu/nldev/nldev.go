//go:build linux

package nldev

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/emu/config"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

// client is RDMA_NL_NLDEV, which leads a message's type.
const client = 5

// Commands. C: enum rdma_nldev_command.
const (
	cmdGet     = 1
	cmdPortGet = 5
	cmdSysGet  = 6
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
)

// MaxRequest is the length of a request that is looked at.
const MaxRequest = 4096

// Answer returns the messages, one or more in each, that the kernel would send to the socket with a port id for what
// was sent by it. The fabric's lock is held.
func Answer(f *hca.Fabric, port uint32, sent []byte) (out [][]byte) {
	for len(sent) >= unix.SizeofNlMsghdr {
		n := int(binary.NativeEndian.Uint32(sent))
		if n < unix.SizeofNlMsghdr || n > len(sent) {
			break
		}
		r := request{f: f, port: port, seq: binary.NativeEndian.Uint32(sent[8:])}
		r.typ, r.flags = binary.NativeEndian.Uint16(sent[4:]), binary.NativeEndian.Uint16(sent[6:])
		if r.flags&unix.NLM_F_REQUEST != 0 && r.typ >= unix.NLMSG_MIN_TYPE {
			r.attrs(sent[unix.SizeofNlMsghdr:n])
			out = append(out, r.answer(sent[:unix.SizeofNlMsghdr])...)
		}
		sent = sent[min((n+3)&^3, len(sent)):]
	}
	return out
}

type request struct {
	f          *hca.Fabric
	port, seq  uint32
	typ, flags uint16
	num        map[uint16]int // attributes that are a number
	buf        []byte
}

func (r *request) attrs(b []byte) {
	r.num = map[uint16]int{}
	for len(b) >= unix.SizeofNlAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofNlAttr || n > len(b) {
			return
		}
		if n == unix.SizeofNlAttr+4 {
			typ := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			r.num[typ] = int(binary.NativeEndian.Uint32(b[4:]))
		}
		b = b[min((n+3)&^3, len(b)):]
	}
}

func (r *request) answer(header []byte) [][]byte {
	dump := r.flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP
	e := r.run(int(r.typ)&0x3ff, dump)
	if dump && e == 0 {
		r.message(unix.NLMSG_DONE, unix.NLM_F_MULTI, func() { r.buf = append(r.buf, 0, 0, 0, 0) })
		return [][]byte{r.buf}
	}
	var out [][]byte
	if e == 0 {
		out = append(out, r.buf)
	}
	if e != 0 || r.flags&unix.NLM_F_ACK != 0 {
		r.buf = nil
		r.message(unix.NLMSG_ERROR, 0, func() {
			r.buf = binary.NativeEndian.AppendUint32(r.buf, uint32(-int32(e)))
			r.buf = append(r.buf, header...)
		})
		out = append(out, r.buf)
	}
	return out
}

func (r *request) run(cmd int, dump bool) unix.Errno {
	if r.typ>>10 != client {
		return unix.EINVAL
	}
	switch {
	case cmd == cmdSysGet && !dump:
		r.message(r.typ, 0, func() { r.attr(attrNetnsMode, []byte{1}) }) // shared
		return 0
	case cmd == cmdGet && dump:
		for _, d := range r.f.Devices {
			if !d.Gone {
				r.device(d)
			}
		}
		return 0
	case cmd != cmdGet && cmd != cmdPortGet:
		return unix.EOPNOTSUPP
	}
	i, ok := r.num[attrDevIndex]
	if !ok || i < 0 || i >= len(r.f.Devices) || r.f.Devices[i].Gone {
		return unix.EINVAL
	}
	d := r.f.Devices[i]
	if cmd == cmdGet {
		r.device(d)
		return 0
	}
	if dump {
		for _, p := range d.Ports {
			r.link(p)
		}
		return 0
	}
	n := r.num[attrPortIndex]
	if n < 1 || n > len(d.Ports) {
		return unix.EINVAL
	}
	r.link(d.Ports[n-1])
	return 0
}

// message appends one.
func (r *request) message(typ uint16, flags int, body func()) {
	at := len(r.buf)
	r.buf = append(r.buf, make([]byte, unix.SizeofNlMsghdr)...)
	body()
	h := r.buf[at:]
	binary.NativeEndian.PutUint32(h, uint32(len(h)))
	binary.NativeEndian.PutUint16(h[4:], typ)
	binary.NativeEndian.PutUint16(h[6:], uint16(flags))
	binary.NativeEndian.PutUint32(h[8:], r.seq)
	binary.NativeEndian.PutUint32(h[12:], r.port)
}

func (r *request) attr(typ uint16, v []byte) {
	r.buf = binary.NativeEndian.AppendUint16(r.buf, uint16(unix.SizeofNlAttr+len(v)))
	r.buf = binary.NativeEndian.AppendUint16(r.buf, typ)
	r.buf = append(r.buf, v...)
	for len(r.buf)%unix.NLA_ALIGNTO != 0 {
		r.buf = append(r.buf, 0)
	}
}

func (r *request) text(typ uint16, s string) { r.attr(typ, append([]byte(s), 0)) }
func (r *request) u32(typ uint16, v uint32)  { r.attr(typ, binary.NativeEndian.AppendUint32(nil, v)) }
func (r *request) u64(typ uint16, v uint64)  { r.attr(typ, binary.NativeEndian.AppendUint64(nil, v)) }
func (r *request) handle(d *hca.Device, n int) {
	r.u32(attrDevIndex, uint32(d.Index))
	r.text(attrDevName, d.Config.Name)
	r.u32(attrPortIndex, uint32(n))
}

func (r *request) device(d *hca.Device) {
	multi := int(r.flags&unix.NLM_F_DUMP) / unix.NLM_F_DUMP * unix.NLM_F_MULTI
	r.message(r.typ, multi, func() {
		r.handle(d, len(d.Ports))
		r.text(attrFWVersion, d.Config.FirmwareVersion)
		r.u64(attrNodeGUID, uint64(d.Config.NodeGUID))
		r.u64(attrSysImageGUID, uint64(d.Config.NodeGUID))
		r.attr(attrNodeType, []byte{1}) // a channel adapter
		protocol := "roce"
		if d.Ports[0].Config.LinkLayer == config.InfiniBand {
			protocol = "ib"
		}
		r.text(attrProtocol, protocol)
	})
}

func (r *request) link(p *hca.Port) {
	multi := int(r.flags&unix.NLM_F_DUMP) / unix.NLM_F_DUMP * unix.NLM_F_MULTI
	c := p.Config
	r.message(r.typ, multi, func() {
		r.handle(p.Device, p.Number)
		if c.LinkLayer == config.InfiniBand {
			r.u64(attrCapFlags, uint64(c.CapFlags))
			if g := p.GID(0); g != nil {
				r.u64(attrSubnetPrefix, binary.BigEndian.Uint64(g.GID[:]))
			}
			r.u32(attrLID, uint32(c.LID))
			r.u32(attrSMLID, uint32(c.SMLID))
			r.attr(attrLMC, []byte{c.LMC})
		}
		state, phys := config.PortDown, config.PhysDisabled
		if p.Active {
			state, phys = config.PortActive, config.PhysLinkUp
		}
		r.attr(attrPortState, []byte{byte(state)})
		r.attr(attrPhysState, []byte{byte(phys)})
		if i := r.f.Config.IfIndex(c.Netdev); i != 0 {
			r.u32(attrNdevIndex, uint32(i))
			r.text(attrNdevName, c.Netdev)
		}
	})
}
