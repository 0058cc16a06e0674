//go:build linux

package verbs

import (
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/emu/config"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
	"github.com/pureverbs/pureverbs/internal/emu/uapi"
)

// deviceCaps is what is supported of enum ib_uverbs_device_cap_flags: bad P_Key and Q_Key counters, port shutdown and
// its event, system image GUID, RNR NAK, memory windows, XRC, local invalidation, windows of type 2B.
const deviceCaps = 1<<1 | 1<<2 | 1<<5 | 1<<10 | 1<<11 | 1<<12 | 1<<17 | 1<<20 | 1<<21 | 1<<24

// A ConnectX's clock, as this one's.
const (
	clockKHz  = 1_000_000
	clockMask = math.MaxInt64
)

func deviceAttr(d *hca.Device) uapi.QueryDeviceResp {
	l, m := &d.Config.Limits, &d.Config.Model
	guid := uapi.Be64(uint64(d.Config.NodeGUID))
	const mcastPerGroup = 240
	return uapi.QueryDeviceResp{
		FwVer: firmware(d.Config.FirmwareVersion), NodeGUID: guid, SysImageGUID: guid, MaxMRSize: l.MaxMRSize,
		PageSizeCap: ^uint64(4095), VendorID: m.VendorID, VendorPartID: uint32(m.PCI), HwVer: m.HWVer,
		MaxQP: uint32(l.MaxQP), MaxQpWR: uint32(l.MaxQPWR), DeviceCapFlags: deviceCaps, MaxSGE: uint32(l.MaxSGE),
		MaxSGERd: 30, MaxCQ: uint32(l.MaxCQ), MaxCQE: uint32(l.MaxCQE), MaxMR: uint32(l.MaxMR),
		MaxPD: uint32(l.MaxPD), MaxQPRdAtom: uint32(l.MaxRdAtom), MaxResRdAtom: uint32(l.MaxRdAtom * l.MaxQP),
		MaxQPInitRdAtom: uint32(l.MaxRdAtom), AtomicCap: 1, MaxMW: uint32(l.MaxMW), MaxMcastGrp: uint32(l.MaxMcast),
		MaxMcastQPAttach:      mcastPerGroup,
		MaxTotalMcastQPAttach: uint32(min(uint64(l.MaxMcast)*mcastPerGroup, math.MaxInt32)), MaxAH: uint32(l.MaxAH),
		MaxSRQ: uint32(l.MaxSRQ), MaxSrqWR: uint32(l.MaxSRQWR), MaxSrqSGE: uint32(l.MaxSRQSGE), MaxPkeys: 128,
		LocalCaAckDelay: 16, PhysPortCnt: uint8(len(d.Ports)),
	}
}

// firmware packs "28.39.1002" as the kernel does.
func firmware(s string) (v uint64) {
	for i, p := range strings.SplitN(s, ".", 3) {
		n, _ := strconv.ParseUint(p, 10, 16)
		v |= n << (32 - 16*i)
	}
	return v
}

func (c *call) deviceAttr() (uapi.QueryDeviceResp, unix.Errno) { return deviceAttr(c.ctx.Device), 0 }

func queryDevice(c *call) unix.Errno {
	v, e := get(c, c.deviceAttr)
	if e != 0 {
		return e
	}
	return reply(c, v)
}

func queryDeviceEx(c *call, q *uapi.ExQueryDevice) unix.Errno {
	if q.CompMask != 0 || q.Reserved != 0 {
		return unix.EINVAL
	}
	v, e := get(c, c.deviceAttr)
	if e != 0 {
		return e
	}
	x := uapi.ExQueryDeviceResp{Base: v, ResponseLength: fits[uapi.ExQueryDeviceResp](c.r.Out),
		TimestampMask: clockMask, HcaCoreClock: clockKHz,
		DeviceCapFlagsEx: uint64(v.DeviceCapFlags), CQModerationCount: 0xffff, CQModerationPeriod: hca.MaxCQPeriod}
	d := uapi.Mlx5QueryDeviceResp{ResponseLength: fits[uapi.Mlx5QueryDeviceResp](c.r.DrvOut)}
	return first(reply(c, x), replyDriver(c, d))
}

// port returns the port whose number the program gave.
func (c *call) port(n uint64) (*hca.Port, unix.Errno) {
	if n < 1 || n > uint64(len(c.ctx.Device.Ports)) {
		return nil, unix.EINVAL
	}
	return c.ctx.Device.Ports[n-1], 0
}

func queryPort(c *call) (e unix.Errno) {
	q := uapi.QueryPort{PortNum: 1}
	var n uint64
	if c.b != nil {
		n = c.b.Uint(0)
	} else if q, e = uapi.Take[uapi.QueryPort](c.r); e != 0 {
		return e
	} else {
		n = uint64(q.PortNum)
	}
	c.req = q
	v, e := get(c, func() (v uapi.QueryPortRespEx, _ unix.Errno) {
		p, e := c.port(n)
		if e == 0 {
			v = portAttr(p)
		}
		return v, e
	})
	switch {
	case e != 0:
		return e
	case c.b == nil:
		return reply(c, v.LegacyResp)
	}
	c.resp = v.LegacyResp
	return out(c, 1, v)
}

func portAttr(p *hca.Port) uapi.QueryPortRespEx {
	k := p.Config
	r := uapi.QueryPortResp{
		PortCapFlags: k.CapFlags, MaxMsgSz: p.Device.Config.Limits.MaxMsgSize, GIDTblLen: uint32(k.GIDTableLen),
		PkeyTblLen: uint16(len(k.PKeys)), LID: k.LID, SmLID: k.SMLID, State: uint8(k.State), MaxMTU: uint8(k.MaxMTU),
		ActiveMTU: uint8(k.ActiveMTU), LMC: k.LMC, SmSl: k.SMSL, ActiveWidth: uint8(k.Width),
		ActiveSpeed: uint8(min(k.Speed, 128)), PhysState: uint8(k.PhysState), LinkLayer: uint8(k.LinkLayer),
	}
	switch {
	case p.Active:
		r.State, r.PhysState = uint8(config.PortActive), uint8(config.PhysLinkUp)
	case k.State == config.PortActive:
		r.State, r.PhysState = uint8(config.PortDown), uint8(config.PhysDisabled)
	}
	if k.LinkLayer == config.InfiniBand {
		r.MaxVlNum, r.SubnetTimeout = 4, 18
	}
	return uapi.QueryPortRespEx{LegacyResp: r, ActiveSpeedEx: uint32(k.Speed)}
}

// queryPortMlx5 describes the embedded switch, which does not exist.
func queryPortMlx5(c *call) unix.Errno {
	e := c.do(func() unix.Errno {
		_, e := c.port(c.b.Uint(uapi.DriverNS))
		return e
	})
	return first(e, out(c, uapi.DriverNS+1, uapi.Mlx5QueryPort{}))
}

func queryGIDEntry(c *call) unix.Errno {
	port, index := c.b.Uint(0), c.b.Uint(1)
	if c.b.Uint(2) != 0 {
		return unix.EINVAL
	}
	var g config.GID
	e := c.do(func() unix.Errno {
		p, e := c.port(port)
		if e != 0 {
			return e
		}
		if index >= uint64(p.Config.GIDTableLen) {
			return unix.EINVAL
		}
		if v := p.GID(int(index)); v != nil && !v.GID.IsZero() {
			g = *v
			return 0
		}
		return unix.ENODATA
	})
	if e != 0 {
		return e
	}
	v := c.gidEntry(uint32(port), uint32(index), &g)
	c.resp = v
	return out(c, 3, v)
}

func (c *call) gidEntry(port, index uint32, g *config.GID) uapi.GIDEntry {
	netdev := uint32(c.s.f.Config.IfIndex(g.Netdev))
	return uapi.GIDEntry{GID: g.GID, GIDIndex: index, PortNum: port, GIDType: uint32(g.Type), NetdevIfindex: netdev}
}

func queryGIDTable(c *call) unix.Errno {
	size, room := c.b.Uint(0), c.b.Room(2)
	if size == 0 || size > math.MaxUint16 || c.b.Uint(1) != 0 {
		return unix.EINVAL
	}
	type entry struct {
		port, index int
		gid         config.GID
	}
	var all []entry
	e := c.do(func() unix.Errno {
		for _, p := range c.ctx.Device.Ports {
			for i := range p.Config.GIDTableLen {
				if g := p.GID(i); g != nil && !g.GID.IsZero() {
					all = append(all, entry{p.Number, i, *g})
				}
			}
		}
		if len(all) > room.Len/int(size) {
			return unix.EINVAL
		}
		return 0
	})
	if e != 0 {
		return e
	}
	b := make([]byte, len(all)*int(size))
	for i := range all {
		v := c.gidEntry(uint32(all[i].port), uint32(all[i].index), &all[i].gid)
		copy(b[i*int(size):(i+1)*int(size)], uapi.Bytes(&v))
	}
	return first(room.Put(b, false), out(c, 3, uint64(len(all))))
}
