//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/emu/uapi"
)

// devxQuery translates a number of the program's to the device's, which is the same: of a doorbell page, of a
// completion vector.
func devxQuery(known func(c *call, i int) bool) func(*call) unix.Errno {
	return func(c *call) unix.Errno {
		i := uint32(c.b.Uint(uapi.DriverNS))
		e := c.do(func() unix.Errno {
			if !known(c, int(i)) {
				return unix.EINVAL
			}
			return 0
		})
		return first(e, out(c, uapi.DriverNS+1, i))
	}
}

// hasUAR also accepts the number of a dynamic register, if the context has them.
func (c *call) hasUAR(i int) bool {
	return c.ctx.DynamicUAR(uint32(i)) != nil || i < len(c.ctx.UARs) && c.ctx.UARs[i] != nil
}

func (c *call) hasVector(i int) bool { return i < compVectors }
