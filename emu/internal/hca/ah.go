//go:build linux

package hca

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// AH is an address handle.
type AH struct {
	PD     *PD
	Handle uint32
	Attr   AHAttr
}

// CreateAH makes an address handle and fills in the peer's MAC address on Ethernet.
func (c *Context) CreateAH(pd uint32, user uint64, attr *AHAttr) (*AH, unix.Errno) {
	p, e := c.PD(pd)
	if e != 0 {
		return nil, e
	}
	a := *attr
	if e := c.Device.checkAH(&a); e != 0 {
		return nil, e
	}
	p.refs++
	ah := &AH{PD: p, Attr: a}
	ah.Handle = c.add(ah)
	_ = user
	return ah, 0
}

// DestroyAH destroys an address handle.
func (c *Context) DestroyAH(handle uint32) unix.Errno {
	ah, e := c.AH(handle)
	if e != 0 {
		return e
	}
	ah.PD.refs--
	delete(c.objects, handle)
	return 0
}

// checkAH checks an address as the kernel does, and resolves its MAC address.
func (d *Device) checkAH(a *AHAttr) unix.Errno {
	p := d.port(a.Port)
	if p == nil {
		return unix.EINVAL
	}
	if p.Config.LinkLayer != config.Ethernet {
		if a.Global && p.GID(int(a.SGIDIndex)) == nil {
			return unix.EINVAL
		}
		return 0
	}
	if !a.Global || p.GID(int(a.SGIDIndex)) == nil {
		return unix.EINVAL
	}
	if a.DGID[0] == 0xff { // multicast: the address is made of the group's
		a.DMAC = [6]byte{0x33, 0x33, a.DGID[12], a.DGID[13], a.DGID[14], a.DGID[15]}
	} else if to, _ := d.Fabric.PortByGID(&a.DGID); to != nil {
		a.DMAC = to.Config.MAC
	}
	return 0
}
