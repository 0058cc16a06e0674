//go:build linux

package hca

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// DM is memory of the device (MEMIC), which the program that allocates it maps. C: struct ib_dm.
type DM struct {
	Context *Context
	Handle  uint32
	Len     uint64 // as asked for
	Page    int    // of the first one among the context's
	Pages   int
	bytes   []byte
	refs    int // regions
}

const (
	mmapDM  = 8 // command of an mmap offset: MLX5_IB_MMAP_DEVICE_MEM
	dmPages = 256
	dmUnit  = 64 // MLX5_MEMIC_BASE_SIZE: what is allocated is a multiple
	// maxDMAlign is the largest alignment, as a power of two: pages are aligned so.
	maxDMAlign = 12
)

// AllocDM allocates memory of the device, zeroed: pages 8<<8 | index of the file.
func (c *Context) AllocDM(length uint64, logAlign uint32) (*DM, unix.Errno) {
	d := c.Device
	size := (length + dmUnit - 1) &^ (dmUnit - 1)
	switch {
	case length == 0, size < length, logAlign > maxDMAlign:
		return nil, unix.EINVAL
	case size > d.Config.Limits.MaxDMSize-d.dmUsed:
		return nil, unix.ENOMEM
	}
	n := int((size + pageSize - 1) / pageSize)
	page, ok := c.dmRoom(n)
	if !ok {
		return nil, unix.ENOMEM
	}
	b, err := c.File.Map((mmapDM<<8+int64(page))*pageSize, n*pageSize)
	if err != nil {
		return nil, unix.ENOMEM
	}
	clear(b)
	m := &DM{Context: c, Len: length, Page: page, Pages: n, bytes: b}
	for i := range n {
		c.dmPages[page+i] = true
	}
	d.dmUsed += size
	m.Handle = c.add(m)
	return m, 0
}

// dmRoom finds n free pages in a row.
func (c *Context) dmRoom(n int) (page int, ok bool) {
	free := 0
	for i, used := range c.dmPages {
		if free++; used {
			free = 0
		}
		if free == n {
			return i - n + 1, true
		}
	}
	return 0, false
}

// DM returns device memory by its handle.
func (c *Context) DM(h uint32) (*DM, unix.Errno) { return find[*DM](c, h) }

// MapsDM reports whether a program may map n pages of its file from page on: whole device memory, and nothing else.
func (c *Context) MapsDM(page, n uint64) bool {
	for _, v := range c.objects {
		if m, ok := v.(*DM); ok && mmapDM<<8+uint64(m.Page) == page {
			return uint64(m.Pages) == n
		}
	}
	return false
}

// FreeDM frees device memory in which no region is registered.
func (c *Context) FreeDM(handle uint32) unix.Errno {
	m, e := c.DM(handle)
	switch {
	case e != 0:
		return e
	case m.refs > 0:
		return unix.EBUSY
	}
	_ = unix.Munmap(m.bytes)
	for i := range m.Pages {
		c.dmPages[m.Page+i] = false
	}
	c.Device.dmUsed -= (m.Len + dmUnit - 1) &^ (dmUnit - 1)
	delete(c.objects, handle)
	return 0
}

// accessDM are the rights that a region of device memory may have. C: MLX5_IB_DM_MEMIC_ALLOWED_ACCESS.
const accessDM = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessZeroBased

// RegDM registers memory of the device. The region is zero based.
func (c *Context) RegDM(pd, dm uint32, off, length uint64, access Access) (*MKey, unix.Errno) {
	p, e := c.PD(pd)
	if e != 0 {
		return nil, e
	}
	m, e := c.DM(dm)
	switch {
	case e != 0:
		return nil, e
	case access&^accessDM != 0, access&AccessZeroBased == 0,
		off > m.Len, length > m.Len-off:
		return nil, unix.EINVAL
	case access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0:
		return nil, unix.EINVAL
	}
	k := &MKey{PD: p, Kind: KeyMR, dm: m}
	var base uint64
	k.Mem, base = guest.Own(m.bytes)
	k.set(base+off, length, 0, access)
	if e := c.addMR(k); e != 0 {
		return nil, e
	}
	m.refs++
	return k, 0
}
