//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

func allocPD(c *call) unix.Errno {
	pd, e := made(c, func() (*hca.PD, unix.Errno) { return hca.AllocPD(c.ctx) })
	if e != 0 {
		return e
	}
	return first(reply(c, uapi.HandleOnly{Handle: pd.Handle}), replyDriver(c, pd.Num))
}

func queryPD(c *call) unix.Errno {
	pd, e := get(c, func() (*hca.PD, unix.Errno) { return hca.Find[*hca.PD](c.ctx, uint32(c.b.Uint(uapi.DriverNS))) })
	if e != 0 {
		return e
	}
	return out(c, uapi.DriverNS+1, pd.Num)
}
