//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Types of device memory. C: enum mlx5_ib_uapi_dm_type. Memory for steering is refused, as there is no steering.
const dmMemic = 0

func allocDM(c *call) unix.Errno {
	switch t := c.b.Uint(uapi.DriverNS + 2); {
	case t != dmMemic:
		return refuse(c)
	case !c.b.Has(uapi.DriverNS), !c.b.Has(uapi.DriverNS + 1):
		return unix.EINVAL
	}
	m, e := traced(c, func() (*hca.DM, unix.Errno) {
		return hca.AllocDM(c.ctx, c.b.Uint(1), uint32(c.b.Uint(2)))
	})
	if e != 0 {
		return e
	}
	return first(out(c, uapi.DriverNS, uint64(0)), out(c, uapi.DriverNS+1, uint16(m.Page)))
}

func queryDM(c *call) unix.Errno {
	m, e := get(c, func() (hca.DM, unix.Errno) {
		return copied(hca.Find[*hca.DM](c.ctx, uint32(c.b.Uint(uapi.DriverNS))))
	})
	return first(e, out(c, uapi.DriverNS+1, uint64(0)), out(c, uapi.DriverNS+2, uint16(m.Page)),
		out(c, uapi.DriverNS+3, m.Len))
}

func regDM(c *call) unix.Errno {
	b := c.b
	if b.Uint(4)>>32 != 0 {
		return unix.EINVAL
	}
	return newMR(c, 6, 7, func() (*hca.MKey, unix.Errno) {
		return hca.RegDM(c.ctx, uint32(b.Uint(3)), uint32(b.Uint(5)), b.Uint(1), b.Uint(2), hca.Access(b.Uint(4)))
	})
}
