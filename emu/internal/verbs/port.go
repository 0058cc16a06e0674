//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

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
	state, phys := k.State, k.PhysState
	if p.Active || k.State == config.PortActive { // else it is as it was made
		state, phys = config.PortStates(p.Active)
	}
	r := uapi.QueryPortResp{
		PortCapFlags: k.CapFlags, MaxMsgSz: p.Device.Config.Limits.MaxMsgSize, GIDTblLen: uint32(k.GIDTableLen),
		PkeyTblLen: uint16(len(k.PKeys)), LID: k.LID, SmLID: k.SMLID, State: uint8(state), MaxMTU: uint8(k.MaxMTU),
		ActiveMTU: uint8(k.ActiveMTU), LMC: k.LMC, SmSl: k.SMSL, ActiveWidth: uint8(k.Width),
		ActiveSpeed: uint8(min(k.Speed, 128)), PhysState: uint8(phys), LinkLayer: uint8(k.LinkLayer),
	}
	if k.LinkLayer == config.InfiniBand {
		r.MaxVlNum, r.SubnetTimeout, r.Flags = 4, 18, bit(k.NeedsGRH)
	}
	return uapi.QueryPortRespEx{LegacyResp: r, ActiveSpeedEx: uint32(k.Speed)}
}

// queryPortSpeed returns the rate in 100 Mb/s.
func queryPortSpeed(c *call) unix.Errno {
	v, e := get(c, func() (uint64, unix.Errno) {
		p, e := c.port(c.b.Uint(0))
		if e != 0 {
			return 0, e
		}
		return uint64(p.Config.Rate()), 0
	})
	return first(e, out(c, 1, v))
}

// queryPortMlx5 describes the embedded switch, which does not exist.
func queryPortMlx5(c *call) unix.Errno {
	e := c.do(func() unix.Errno {
		_, e := c.port(c.b.Uint(uapi.DriverNS))
		return e
	})
	return first(e, out(c, uapi.DriverNS+1, uapi.Mlx5QueryPort{}))
}
