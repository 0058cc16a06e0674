//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

func uarAlloc(c *call) unix.Errno {
	kind := c.b.Uint(uapi.DriverNS + 1)
	if kind > 1 {
		return unix.EOPNOTSUPP
	}
	u, e := create(c, func() (*hca.UAR, unix.Errno) { return c.ctx.AllocUAR(uint32(kind)) },
		func(u *hca.UAR) { c.ctx.FreeUAR(u.Handle) })
	if e != 0 {
		return e
	}
	c.resp = uapi.HandleOnly{Handle: u.Handle}
	return first(c.b.SetID(uapi.DriverNS, uint64(u.Handle)),
		out(c, uapi.DriverNS+2, uint64(uapi.MmapUAR<<8+u.Index)*pageSize),
		out(c, uapi.DriverNS+3, uint32(pageSize)), out(c, uapi.DriverNS+4, uint32(u.Index)))
}
