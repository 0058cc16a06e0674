//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

const (
	flowDontTrap = 1 << 1
	flowEgress   = 1 << 2
	maxSpecs     = 10 // IB_FLOW_SPEC_SUPPORT_LAYERS
	preferCached = 1
)

// filter is the size of a spec's filter, and how many of its bytes the device compares: in the kernel's struct others
// follow them.
var filters = map[uint32]struct{ size, used int }{
	hca.SpecEth: {16, 16}, hca.SpecIPv4: {12, 10}, hca.SpecIPv6: {40, 38}, hca.SpecESP: {8, 4}, hca.SpecTCP: {4, 4},
	hca.SpecUDP: {4, 4}, hca.SpecVXLAN: {4, 4}, hca.SpecGRE: {8, 8}, hca.SpecMPLS: {4, 4},
}

func createFlow(c *call) unix.Errno {
	q := uapi.Decode[uapi.CreateFlow](c.r.Core)
	specs := c.r.Core[min(len(c.r.Core), uapi.Size[uapi.CreateFlow]()):]
	switch {
	case q.CompMask != 0, q.Flags&^(flowDontTrap|flowEgress) != 0, q.Reserved != [2]byte{}, q.NumOfSpecs > maxSpecs:
		return unix.EINVAL
	case int(q.Size) > len(specs):
		return unix.EINVAL
	case !c.who.capable(unix.CAP_NET_RAW):
		return unix.EPERM
	}
	i := hca.FlowInit{QP: q.QPHandle, Type: hca.FlowType(q.Type), Priority: q.Priority, Port: q.Port,
		DontTrap: q.Flags&flowDontTrap != 0, Egress: q.Flags&flowEgress != 0}
	if e := takeSpecs(&i, specs[:q.Size], int(q.NumOfSpecs)); e != 0 {
		return e
	}
	if e := c.takePoints(&i); e != 0 {
		return e
	}
	c.req = q
	f, e := made(c, func() (*hca.Flow, unix.Errno) { return hca.CreateFlow(c.ctx, &i) })
	if e != 0 {
		return e
	}
	return reply(c, uapi.CreateFlowResp{FlowHandle: f.Handle})
}

// takeSpecs reads the specs of a rule as the kernel does.
func takeSpecs(i *hca.FlowInit, b []byte, n int) unix.Errno {
	ethertype := map[uint32]uint16{} // that an Ethernet spec asks for, by inner or outer
	for ; n > 0; n-- {
		if len(b) < uapi.Size[uapi.FlowSpec]() {
			return unix.EINVAL
		}
		h := uapi.Decode[uapi.FlowSpec](b)
		if int(h.Size) > len(b) || h.Size < 8 || h.Reserved != 0 {
			return unix.EINVAL
		}
		spec := b[8:h.Size]
		b = b[h.Size:]
		if h.Type >= hca.SpecTag {
			if e := takeAction(i, h.Type, spec); e != 0 {
				return e
			}
			continue
		}
		inner := h.Type & hca.SpecInner
		f, known := filters[h.Type&^hca.SpecInner]
		if !known || h.Type&^(hca.SpecInner|0xff) != 0 || len(spec) < 2 || len(spec)%2 != 0 {
			return unix.EINVAL
		}
		// A program's filter may be shorter than ours, or longer if its mask has no more in it.
		half := len(spec) / 2
		m := hca.FlowMatch{Spec: h.Type, Value: make([]byte, f.size), Mask: make([]byte, f.size)}
		copy(m.Value, spec[:half])
		copy(m.Mask, spec[half:])
		if !uapi.Cleared(spec[half:], f.size) {
			return unix.EOPNOTSUPP
		}
		if !uapi.Cleared(m.Mask, f.used) || h.Type&^hca.SpecInner == hca.SpecGRE && (m.Mask[0] != 0 || m.Mask[1] != 0) {
			return unix.EOPNOTSUPP
		}
		switch h.Type &^ hca.SpecInner {
		case hca.SpecEth:
			if m.Mask[12] == 0xff && m.Mask[13] == 0xff {
				ethertype[inner] = uint16(m.Value[12])<<8 | uint16(m.Value[13])
			}
		case hca.SpecIPv4, hca.SpecIPv6:
			want := uint16(0x0800)
			if h.Type&^hca.SpecInner == hca.SpecIPv6 {
				want = 0x86dd
			}
			if t, given := ethertype[inner]; given && t != want {
				return unix.EINVAL
			}
		}
		i.Matches = append(i.Matches, m)
	}
	if len(b) > 0 {
		return unix.EINVAL
	}
	return 0
}

func takeAction(i *hca.FlowInit, kind uint32, spec []byte) unix.Errno {
	if kind == hca.SpecDrop {
		i.Drop = true
		return 0
	}
	if len(spec) != 8 {
		return unix.EINVAL
	}
	value := uapi.Decode[uint32](spec)
	switch kind {
	case hca.SpecTag:
		i.Tag, i.Tagged = value, true
	case hca.SpecCount:
		if i.Counters != 0 { // one for each rule
			return unix.EINVAL
		}
		i.Counters = value
	default: // SpecHandle too: of an ESP action, which no kernel of today makes for mlx5
		return unix.EINVAL
	}
	return 0
}

// takePoints reads what the driver's part says of the rule's counters.
func (c *call) takePoints(i *hca.FlowInit) unix.Errno {
	p := c.r.Driver
	head := uapi.Decode[uapi.Mlx5CreateFlow](p)
	if head.NcountersData == 0 {
		return 0
	}
	p = p[min(len(p), uapi.Size[uapi.Mlx5CreateFlow]()):]
	if head.NcountersData > 1 || len(p) < uapi.Size[uapi.Mlx5FlowCounters]() || i.Counters == 0 {
		return unix.EINVAL
	}
	d := uapi.Decode[uapi.Mlx5FlowCounters](p)
	if d.Ncounters == 0 || d.Ncounters > 64 {
		return unix.EINVAL
	}
	size := uapi.Size[uapi.Mlx5CounterPoint]()
	b := make([]byte, int(d.Ncounters)*size)
	if c.who.Read(d.CountersData, b) != nil {
		return unix.EFAULT
	}
	for ; len(b) > 0; b = b[size:] {
		v := uapi.Decode[uapi.Mlx5CounterPoint](b)
		i.Points = append(i.Points, hca.CounterPoint{Description: v.Description, Index: v.Index})
	}
	return 0
}

func destroyFlow(c *call) unix.Errno {
	e := destroy(hca.Find[*hca.Flow], silent)(c)
	q, ok := c.req.(uapi.HandleOnly)
	if !ok { // it has a mask
		return unix.EINVAL
	}
	c.req = uapi.DestroyFlow{FlowHandle: q.Handle}
	return e
}

func createCounters(c *call) unix.Errno {
	return named(c, func() (*hca.FlowCounters, unix.Errno) { return hca.CreateCounters(c.ctx) })
}

func readCounters(c *call) unix.Errno {
	if c.b.Uint(2)&^preferCached != 0 {
		return unix.EINVAL
	}
	room := c.b.Room(1)
	v, e := get(c, func() ([]uint64, unix.Errno) {
		o, e := hca.Find[*hca.FlowCounters](c.ctx, uint32(c.b.Uint(0)))
		if e != 0 {
			return nil, e
		}
		return o.Read(room.Len / 8)
	})
	if e != 0 {
		return e
	}
	var b []byte
	for i := range v {
		b = append(b, uapi.Bytes(&v[i])...)
	}
	return room.Put(b, true)
}
