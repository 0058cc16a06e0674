//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

func uarAlloc(c *call) unix.Errno {
	if c.b.Uint(uapi.DriverNS+1) > 1 { // neither BlueFlame nor non-cached
		return unix.EOPNOTSUPP
	}
	u, e := traced(c, func() (*hca.UAR, unix.Errno) { return hca.AllocUAR(c.ctx) })
	if e != 0 {
		return e
	}
	return first(out(c, uapi.DriverNS+2, uint64(uapi.MmapUAR<<8+u.Index)*pageSize),
		out(c, uapi.DriverNS+3, uint32(pageSize)), out(c, uapi.DriverNS+4, uint32(u.Index)))
}

func varAlloc(c *call) unix.Errno {
	const tlp = 1 << 0 // for another kind of emulated device. C: MLX5_IB_UAPI_VAR_ALLOC_FLAG_TLP
	if !c.ctx.Device.Recent() || c.b.Uint(uapi.DriverNS+4)&^tlp != 0 {
		return refuse(c)
	}
	v, e := traced(c, func() (*hca.VAR, unix.Errno) { return hca.AllocVAR(c.ctx) })
	if e != 0 {
		return e
	}
	return first(out(c, uapi.DriverNS+1, uint64(hca.MmapVAR<<8+v.Index)*pageSize),
		out(c, uapi.DriverNS+2, uint32(pageSize)), out(c, uapi.DriverNS+3, uint32(v.Index)))
}

func paceAlloc(c *call) unix.Errno {
	flags := c.b.Uint(uapi.DriverNS + 2)
	switch {
	case !c.ctx.Device.Recent():
		return refuse(c)
	case flags&^uapi.PaceDedicated != 0:
		return unix.EINVAL
	}
	p, e := traced(c, func() (*hca.Pace, unix.Errno) {
		return hca.AllocPace(c.ctx, c.b.Bytes(uapi.DriverNS+1), flags != 0)
	})
	if e != 0 {
		return e
	}
	return out(c, uapi.DriverNS+3, p.Index())
}
