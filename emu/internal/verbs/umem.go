//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

func umemReg(c *call) unix.Errno {
	b := c.b
	const dmabuf, sizes = uapi.DriverNS + 6, uapi.DriverNS + 5
	fd, pages := -1, ^uint64(pageSize-1)
	if b.Has(dmabuf) {
		fd = int(int32(b.Uint(dmabuf)))
	}
	if b.Has(sizes) {
		pages = b.Uint(sizes)
	}
	if b.Uint(uapi.DriverNS+3)>>32 != 0 {
		return unix.EINVAL
	}
	u, e := traced(c, func() (*hca.Umem, unix.Errno) {
		return hca.RegUmem(c.ctx, b.Uint(uapi.DriverNS+1), b.Uint(uapi.DriverNS+2), pages,
			hca.Access(b.Uint(uapi.DriverNS+3)), fd)
	})
	if e != 0 {
		return e
	}
	return out(c, uapi.DriverNS+4, u.ID)
}
