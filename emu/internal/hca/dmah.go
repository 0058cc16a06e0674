//go:build linux

package hca

import "golang.org/x/sys/unix"

// DMAHandle is advice on DMA for regions. It has no effect here. C: struct ib_dmah.
type DMAHandle struct {
	Context *Context
	Handle  uint32
	refs    int // regions
}

// AllocDMAH makes a handle.
func (c *Context) AllocDMAH() (*DMAHandle, unix.Errno) {
	h := &DMAHandle{Context: c}
	h.Handle = c.add(h)
	return h, 0
}

// FreeDMAH frees a handle that no region has.
func (c *Context) FreeDMAH(handle uint32) unix.Errno {
	h, e := find[*DMAHandle](c, handle)
	switch {
	case e != 0:
		return e
	case h.refs > 0 && !c.Dead:
		return unix.EBUSY
	}
	delete(c.objects, handle)
	return 0
}

// RegWith is RegMR with advice.
func (c *Context) RegWith(dmah, pd uint32, start, length, iova uint64, access Access) (*MKey, unix.Errno) {
	h, e := find[*DMAHandle](c, dmah)
	if e != 0 {
		return nil, e
	}
	k, e := c.RegMR(pd, start, length, iova, access)
	if e == 0 {
		k.advised(h)
	}
	return k, e
}

// advised gives a new region advice, or none.
func (k *MKey) advised(h *DMAHandle) {
	if h != nil {
		k.dmah = h
		h.refs++
	}
}
