//go:build linux

package hca

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// Umem is memory of the program that DevX objects are made of.
type Umem struct {
	Context *Context
	Handle  uint32
	ID      uint32
	Mem     guest.Mem // where Addr counts: the program, or this process for a dma-buf
	Addr    uint64
	Len     uint64

	dmabuf []byte // its mapping
	refs   int    // objects that are made of it
}

// RegUmem registers memory of the calling process, or with fd >= 0 n bytes of a dma-buf at offset addr.
func (c *Context) RegUmem(addr, n, pageSizes uint64, access Access, fd int) (*Umem, unix.Errno) {
	const possible = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRelaxed
	u := &Umem{Context: c, Mem: c.Mem, Addr: addr, Len: n}
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
		u.dmabuf = b
	case !c.Mem.Mapped(addr, n, access&AccessLocalWrite != 0):
		return nil, unix.EFAULT
	default:
		if e := c.Device.Fabric.charge(c.Mem.PID, locked(addr, n)); e != 0 {
			return nil, e
		}
	}
	u.ID = c.Device.NextNumber()
	u.Handle = c.add(u)
	return u, 0
}

// DeregUmem ends a registration that nothing uses.
func (c *Context) DeregUmem(handle uint32) unix.Errno {
	u, e := find[*Umem](c, handle)
	switch {
	case e != 0:
		return e
	case u.refs > 0 && !c.Dead:
		return unix.EBUSY
	}
	if u.dmabuf != nil {
		_ = unix.Munmap(u.dmabuf)
	} else {
		c.Device.Fabric.discharge(u.Mem.PID, locked(u.Addr, u.Len))
	}
	delete(c.objects, handle)
	return 0
}

// Umem returns the umem of the context with a number, or nil.
func (c *Context) Umem(id uint32) *Umem {
	for _, o := range c.objects {
		if u, ok := o.(*Umem); ok && u.ID == id {
			return u
		}
	}
	return nil
}

// Hold counts n objects more that are made of the umem.
func (u *Umem) Hold(n int) { u.refs += n }
