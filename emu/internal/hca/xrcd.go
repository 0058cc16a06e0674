//go:build linux

package hca

import "golang.org/x/sys/unix"

// XRCD is an XRC domain; contexts that open the same file share it.
type XRCD struct {
	Device *Device
	key    xrcdKey
	named  bool
	refs   int // handles
	users  int // QPs and SRQs
}

type xrcdKey struct {
	device   int
	dev, ino uint64
}

// xrcds are the domains of all devices that files name.
type xrcds struct{ named map[xrcdKey]*XRCD }

// liveXRCDs is how many domains a device has.
type liveXRCDs struct{ n int }

var (
	xrcdPart = newPart[xrcds]()
	xrcdLive = newPart[liveXRCDs]()
)

// XRCDRef is one opening of an XRC domain.
type XRCDRef struct {
	Held // used by the QPs and SRQs that were made or opened by it. C: ib_uxrcd_object.refcnt
	x    *XRCD
}

// xrcdOf finds an opening for what is made in the domain.
func xrcdOf(c *Context, handle uint32) (*XRCDRef, unix.Errno) {
	r, e := Find[*XRCDRef](c, handle)
	if e != 0 {
		e = unix.EINVAL // whatever is wrong with it
	}
	return r, e
}

// join counts n QPs or SRQs more in a domain, or in none.
func (x *XRCD) join(n int) {
	if x != nil {
		x.users += n
	}
}

// domain returns the domain, nil of none.
func (r *XRCDRef) domain() *XRCD {
	if r == nil {
		return nil
	}
	return r.x
}

// OpenXRCD opens the XRC domain of an inode, or one of its own for no inode (dev and ino 0). flags are O_CREAT and
// O_EXCL.
func OpenXRCD(c *Context, dev, ino uint64, flags uint32) (*XRCDRef, unix.Errno) {
	d := c.Device
	all, live := xrcdPart.of(&d.Fabric.parts), xrcdLive.of(&d.parts)
	key := xrcdKey{d.Index, dev, ino}
	named := dev != 0 || ino != 0
	var x *XRCD
	if named {
		x = all.named[key]
	}
	switch {
	case x == nil && named && flags&unix.O_CREAT == 0:
		return nil, unix.EAGAIN
	case x != nil && flags&unix.O_EXCL != 0:
		return nil, unix.EINVAL
	case x == nil && live.n >= d.Config.Limits.MaxXRCD:
		return nil, unix.ENOMEM
	}
	if x == nil {
		live.n++
		x = &XRCD{Device: d, key: key, named: named}
		if named {
			if all.named == nil {
				all.named = map[xrcdKey]*XRCD{}
			}
			all.named[key] = x
		}
	}
	x.refs++
	r := &XRCDRef{c.held(rankXRCD, "XRCD"), x}
	r.life.end = r.end
	return added(c, r)
}

// Destroy closes the XRC domain, unless QPs or SRQs were made by this opening; the last one fails while any use it.
func (r *XRCDRef) Destroy() unix.Errno {
	if r.x.refs == 1 && r.x.users > 0 && !r.Context.Dead {
		return unix.EBUSY
	}
	return r.Held.Destroy()
}

func (r *XRCDRef) end() {
	if r.x.refs--; r.x.refs > 0 {
		return
	}
	xrcdLive.of(&r.x.Device.parts).n--
	if r.x.named {
		delete(xrcdPart.of(&r.x.Device.Fabric.parts).named, r.x.key)
	}
}
