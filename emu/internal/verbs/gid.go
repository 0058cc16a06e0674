//go:build linux

package verbs

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

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
