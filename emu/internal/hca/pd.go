//go:build linux

package hca

import "golang.org/x/sys/unix"

// PD is a protection domain. C: struct ib_pd.
type PD struct {
	Context *Context
	Handle  uint32
	Num     uint32 // PDN
	refs    int
}

// AllocPD makes a protection domain.
func (c *Context) AllocPD() (*PD, unix.Errno) {
	d := c.Device
	if d.livePDs >= d.Config.Limits.MaxPD {
		return nil, unix.ENOMEM
	}
	d.livePDs++
	d.pds++
	pd := &PD{Context: c, Num: uint32(d.pds) & 0xffffff}
	pd.Handle = c.add(pd)
	return pd, 0
}

// DeallocPD destroys a protection domain that nothing uses.
func (c *Context) DeallocPD(handle uint32) unix.Errno {
	pd, e := c.PD(handle)
	if e != 0 {
		return e
	}
	if pd.refs > 0 {
		return unix.EBUSY
	}
	c.Device.livePDs--
	delete(c.objects, handle)
	return 0
}
