//go:build linux

package hca

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/emu/config"
	"github.com/pureverbs/pureverbs/internal/emu/guest"
)

// Open makes a context for process pid, whose device file is f.
func (d *Device) Open(pid int, f *guest.File) *Context {
	d.Fabric.nextCtx++
	c := &Context{Device: d, ID: d.Fabric.nextCtx, PID: pid, Mem: guest.Mem{PID: pid}, File: f,
		CQEVersion: uint8(d.Config.CQEVersion), objects: map[uint32]any{}, channels: map[string]*CompChannel{}}
	d.Contexts[c.ID] = c
	return c
}

// add gives an object a handle. 0 is never one.
func (c *Context) add(v any) uint32 {
	for {
		c.next++
		if _, used := c.objects[c.next]; !used && c.next != 0 {
			c.objects[c.next] = v
			return c.next
		}
	}
}

// Handles returns the handles of all objects, in order.
func (c *Context) Handles() []uint32 { return slices.Sorted(maps.Keys(c.objects)) }

// Object returns what a handle stands for, or nil.
func (c *Context) Object(handle uint32) any { return c.objects[handle] }

func find[T any](c *Context, handle uint32) (v T, e unix.Errno) {
	o, ok := c.objects[handle]
	if !ok {
		return v, unix.ENOENT
	}
	if v, ok = o.(T); !ok {
		return v, unix.EINVAL
	}
	return v, 0
}

// The objects of one kind by handle; EINVAL for a handle of another kind, ENOENT for one of nothing.

func (c *Context) PD(h uint32) (*PD, unix.Errno)    { return find[*PD](c, h) }
func (c *Context) Key(h uint32) (*MKey, unix.Errno) { return find[*MKey](c, h) }
func (c *Context) CQ(h uint32) (*CQ, unix.Errno)    { return find[*CQ](c, h) }
func (c *Context) SRQ(h uint32) (*SRQ, unix.Errno)  { return find[*SRQ](c, h) }
func (c *Context) AH(h uint32) (*AH, unix.Errno)    { return find[*AH](c, h) }

// QP also finds a QP that was opened by its number.
func (c *Context) QP(h uint32) (*QP, unix.Errno) {
	switch v := c.objects[h].(type) {
	case *QP:
		return v, 0
	case *OpenedQP:
		return v.qp, 0
	case nil:
		return nil, unix.ENOENT
	}
	return nil, unix.EINVAL
}

type order struct {
	rank int
	name string
}

// rank is the order in which a release destroys objects: those that use others come first.
func rank(v any) order {
	switch v := v.(type) {
	case *AH:
		return order{1, "AH"}
	case *OpenedQP:
		return order{2, "opened QP"}
	case *QP:
		return order{3, "QP"}
	case *SRQ:
		return order{4, "SRQ"}
	case *CQ:
		return order{5, "CQ"}
	case *MKey:
		if v.Kind == KeyMW1 || v.Kind == KeyMW2 {
			return order{6, "MW"}
		}
		return order{7, "MR"}
	case *XRCDRef:
		return order{8, "XRCD"}
	case *PD:
		return order{9, "PD"}
	case *UAR:
		return order{10, "UAR"}
	}
	return order{11, "object"}
}

// Leaked counts what a program left undestroyed: "3 MRs", "1 QP". Doorbell pages are up to the library.
func (c *Context) Leaked() []string {
	count := map[order]int{}
	for _, v := range c.objects {
		if r := rank(v); r.name != "UAR" {
			count[r]++
		}
	}
	var kinds []order
	for k := range count {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b order) int { return a.rank - b.rank })
	var all []string
	for _, k := range kinds {
		s := ""
		if count[k] > 1 {
			s = "s"
		}
		all = append(all, fmt.Sprintf("%d %s%s", count[k], k.name, s))
	}
	return all
}

// Release ends a context whose file is gone from the program. It destroys all that is left.
func (c *Context) Release() {
	if c.Dead {
		return
	}
	c.Dead = true
	type entry struct {
		h uint32
		v any
	}
	var all []entry
	for h, v := range c.objects {
		all = append(all, entry{h, v})
	}
	slices.SortFunc(all, func(a, b entry) int {
		if d := rank(a.v).rank - rank(b.v).rank; d != 0 {
			return d
		}
		return int(a.h) - int(b.h)
	})
	for _, e := range all {
		switch v := e.v.(type) {
		case *AH:
			c.DestroyAH(e.h)
		case *QP, *OpenedQP:
			c.DestroyQP(e.h)
		case *SRQ:
			c.DestroySRQ(e.h)
		case *CQ:
			c.DestroyCQ(e.h)
		case *MKey:
			if v.Kind == KeyMW1 || v.Kind == KeyMW2 {
				c.DeallocMW(e.h)
			} else {
				v.refs = 0 // a window of another context cannot hold it: windows are of one PD
				c.DeregMR(e.h)
			}
		case *XRCDRef:
			c.CloseXRCD(e.h)
		case *PD:
			v.refs = 0
			c.DeallocPD(e.h)
		case *UAR:
			c.FreeUAR(e.h)
		}
	}
	c.DropRegisters()
	for _, ch := range c.channels {
		ch.Pipe.Close()
	}
	if c.Async != nil {
		c.Async.Close()
	}
	delete(c.Device.Contexts, c.ID)
}

const (
	pageSize = 4096
	mmapUAR  = 9 // command of an mmap offset: MLX5_IB_MMAP_ALLOC_UAR
)

// AllocUAR hands out a doorbell page: page 9<<8 | index of the file.
func (c *Context) AllocUAR(kind uint32) (*UAR, unix.Errno) {
	i := slices.Index(c.UARs, nil)
	if i < 0 {
		if i = len(c.UARs); i >= c.Device.Config.Limits.MaxUAR || i > 0xff {
			return nil, unix.ENOSPC
		}
		c.UARs = append(c.UARs, nil)
	}
	u := &UAR{Context: c, Index: i, Kind: kind}
	if e := u.open(int64(mmapUAR<<8 | i)); e != 0 {
		return nil, e
	}
	u.Handle = c.add(u)
	c.UARs[i] = u
	return u, 0
}

// FreeUAR takes a doorbell page back.
func (c *Context) FreeUAR(handle uint32) unix.Errno {
	u, e := find[*UAR](c, handle)
	if e != 0 {
		return e
	}
	if len(u.QPs) > 0 && !c.Dead {
		return unix.EBUSY
	}
	u.close()
	c.UARs[u.Index] = nil
	delete(c.objects, handle)
	return 0
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

// CreateChannel makes a completion channel of a pipe. It is gone when the program has closed its end.
func (c *Context) CreateChannel(p *guest.Pipe) *CompChannel {
	ch := &CompChannel{Context: c, Pipe: p}
	c.channels[p.Name()] = ch
	p.OnClose(func() {
		c.Device.Fabric.Lock()
		defer c.Device.Fabric.Unlock()
		if c.channels[p.Name()] == ch {
			delete(c.channels, p.Name())
		}
	})
	return ch
}

// Channel returns the completion channel of a name, as the program's descriptor has it, or nil.
func (c *Context) Channel(name string) *CompChannel { return c.channels[name] }

// XRCDRef is one opening of an XRC domain.
type XRCDRef struct{ x *XRCD }

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
	return c.add(&XRCDRef{x}), x, isNew, 0
}

// CloseXRCD closes an XRC domain; the last one fails while QPs or SRQs use it.
func (c *Context) CloseXRCD(handle uint32) unix.Errno {
	r, e := find[*XRCDRef](c, handle)
	if e != 0 {
		return e
	}
	if r.x.refs == 1 && r.x.users > 0 && !c.Dead {
		return unix.EBUSY
	}
	if r.x.refs--; r.x.refs == 0 && r.x.named {
		delete(c.Device.Fabric.xrcds, r.x.key)
	}
	delete(c.objects, handle)
	return 0
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
