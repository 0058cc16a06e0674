//go:build linux

package hca

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// accessDmabuf are the rights that a region of a dma-buf may have.
const accessDmabuf = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessRelaxed

// RegDmabuf registers n bytes of a dma-buf at offset off, whose descriptor is the calling process's, with advice on DMA
// unless its handle is 0.
func RegDmabuf(c *Context, pd uint32, fd int, off, n, iova uint64, access Access, advice uint32) (*MKey, unix.Errno) {
	k := &MKey{Held: c.held(rankRegion, "MR"), Kind: KeyMR, writable: access.writable()}
	e := k.find(pd, advice)
	switch {
	case e != 0:
		return nil, e
	case access&^accessDmabuf != 0, n == 0, off%pageSize != iova%pageSize, iova+n < iova,
		access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0:
		return nil, unix.EINVAL
	}
	b, skip, e := guest.MapBuffer(c.Mem.PID, fd, off, n, c.Device.Config.MemfdDmabuf)
	if e != 0 {
		return nil, e
	}
	k.dmabuf = b
	var base uint64
	k.Mem, base = guest.Own(b)
	k.set(base+skip, n, iova, access)
	if e = k.addTo(c); e != 0 {
		_ = unix.Munmap(b)
	}
	return k, e
}
