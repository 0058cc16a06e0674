//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

func createAH(c *call, q *uapi.CreateAH) unix.Errno {
	g, r := &q.Attr, &q.Attr.GRH
	a := destAttr(&uapi.QPDest{DGID: r.DGID, FlowLabel: r.FlowLabel, SGIDIndex: r.SGIDIndex, HopLimit: r.HopLimit,
		TrafficClass: r.TrafficClass, DLID: g.DLID, SL: g.SL,
		SrcPathBits: g.SrcPathBits, StaticRate: g.StaticRate, IsGlobal: g.IsGlobal, PortNum: g.PortNum})
	const least = 10 // of the driver's answer, which there is on RoCE
	var roce bool
	ah, e := made(c, func() (*hca.AH, unix.Errno) {
		p, e := c.port(uint64(a.Port))
		if e != 0 {
			return nil, e
		}
		if roce = p.Config.LinkLayer == config.Ethernet; roce && c.driverRoom().Len < least {
			return nil, unix.EINVAL
		}
		return hca.CreateAH(c.ctx, q.PDHandle, &a)
	})
	if e == 0 && roce {
		e = replyDriver(c, uapi.Mlx5CreateAHResp{ResponseLength: least, Dmac: ah.Attr.DMAC})
	}
	if e != 0 {
		return e
	}
	return reply(c, uapi.HandleOnly{Handle: ah.Handle})
}
