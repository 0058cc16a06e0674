//go:build linux

package hca

import "golang.org/x/sys/unix"

// XRCD is an XRC domain; contexts that open the same file share it.
type XRCD struct {
	Device *Device
	Num    uint32
	key    xrcdKey
	named  bool
	refs   int // handles
	users  int // QPs and SRQs
}

type xrcdKey struct {
	device   int
	dev, ino uint64
}

// XRCDRef is one opening of an XRC domain.
type XRCDRef struct {
	x     *XRCD
	users int // handles of QPs and SRQs that were made or opened by it. C: ib_uxrcd_object.refcnt
}

// xrcd finds an opening for what is made in the domain.
func (c *Context) xrcd(handle uint32) (*XRCDRef, unix.Errno) {
	r, e := find[*XRCDRef](c, handle)
	if e != 0 {
		e = unix.EINVAL // whatever is wrong with it
	}
	return r, e
}

// hold counts n handles more.
func (r *XRCDRef) hold(n int) {
	if r != nil {
		r.users += n
	}
}

// OpenXRCD opens the XRC domain of an inode, or one of its own for no inode (dev and ino 0). flags are O_CREAT and
// O_EXCL.
func (c *Context) OpenXRCD(dev, ino uint64, flags uint32) (handle uint32, x *XRCD, isNew bool, e unix.Errno) {
	f := c.Device.Fabric
	key := xrcdKey{c.Device.Index, dev, ino}
	named := dev != 0 || ino != 0
	if named {
		x = f.xrcds[key]
	}
	switch {
	case x == nil && named && flags&unix.O_CREAT == 0:
		return 0, nil, false, unix.EAGAIN
	case x != nil && flags&unix.O_EXCL != 0:
		return 0, nil, false, unix.EINVAL
	}
	if isNew = x == nil; isNew {
		f.nextXRCD++
		x = &XRCD{Device: c.Device, Num: f.nextXRCD & 0xffffff, key: key, named: named}
		if named {
			f.xrcds[key] = x
		}
	}
	x.refs++
	return c.add(&XRCDRef{x: x}), x, isNew, 0
}

// CloseXRCD closes an XRC domain, unless QPs or SRQs were made by this opening; the last one fails while any use it.
func (c *Context) CloseXRCD(handle uint32) unix.Errno {
	r, e := find[*XRCDRef](c, handle)
	if e != 0 {
		return e
	}
	if (r.users > 0 || r.x.refs == 1 && r.x.users > 0) && !c.Dead {
		return unix.EBUSY
	}
	if r.x.refs--; r.x.refs == 0 && r.x.named {
		delete(c.Device.Fabric.xrcds, r.x.key)
	}
	delete(c.objects, handle)
	return 0
}
