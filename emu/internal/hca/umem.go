//go:build linux

package hca

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// Umem is memory of the program that DevX objects are made of.
type Umem struct {
	Held
	ID   uint32
	Mem  guest.Mem // where Addr counts: the program, or this process for a dma-buf
	Addr uint64
	Len  uint64
}

// RegUmem registers memory of the calling process, or with fd >= 0 n bytes of a dma-buf at offset addr.
func RegUmem(c *Context, addr, n, pageSizes uint64, access Access, fd int) (*Umem, unix.Errno) {
	const possible = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRelaxed
	u := &Umem{Held: c.held(rankPlain, "umem"), Mem: c.Mem, Addr: addr, Len: n}
	switch {
	case !c.DevX, n == 0, addr+n < addr, access&^possible != 0,
		access&AccessRemoteWrite != 0 && access&AccessLocalWrite == 0,
		pageSizes&(pageSize-1) != 0, pageSizes == 0:
		return nil, unix.EINVAL
	case fd >= 0:
		b, skip, e := guest.MapBuffer(c.Mem.PID, fd, addr, n, c.Device.Config.MemfdDmabuf)
		if e != 0 {
			return nil, e
		}
		u.Mem, u.Addr = guest.Own(b)
		u.Addr += skip
		u.life.end = func() { _ = unix.Munmap(b) }
	case !c.Mem.Mapped(addr, n, access&AccessLocalWrite != 0):
		return nil, unix.EFAULT
	default:
		if e := c.Device.Fabric.charge(c.Mem.PID, locked(addr, n)); e != 0 {
			return nil, e
		}
		u.life.end = func() { c.Device.Fabric.discharge(u.Mem.PID, locked(addr, n)) }
	}
	u.ID = c.Device.NextNumber()
	return added(c, u)
}

// UmemNumbered returns the umem of the context with a number, or nil.
func UmemNumbered(c *Context, id uint32) *Umem {
	return Lookup(c, func(u *Umem) bool { return u.ID == id })
}
