//go:build linux

package hca

import "golang.org/x/sys/unix"

// Bind makes a window refer to n bytes at addr of a region; on the wire they begin at base. The low byte of its number
// becomes variant.
func (k *MKey) Bind(mr *MKey, addr, base, n uint64, access Access, qpn uint32, variant uint8) {
	k.Unbind()
	k.Key = k.Key&^0xff | uint32(variant)
	mr.Hold(1)
	k.MR, k.Mem, k.Addr, k.Len, k.Base, k.Access, k.QPN, k.Free = mr, mr.Mem, addr, n, base, access, qpn, false
}

// Unbind sets a window free.
func (k *MKey) Unbind() {
	if k.MR != nil {
		k.MR.Hold(-1)
	}
	k.MR, k.Free, k.Access, k.Len, k.QPN = nil, true, 0, 0, 0
}

// AllocMW makes a memory window of type 1 or 2.
func AllocMW(c *Context, pd uint32, typ uint8) (*MKey, unix.Errno) {
	p, e := Find[*PD](c, pd)
	d := c.Device
	switch {
	case e != 0:
		return nil, e
	case typ != 1 && typ != 2:
		return nil, unix.EINVAL
	case d.keys().liveMWs >= d.Config.Limits.MaxMW:
		return nil, unix.ENOMEM
	}
	k := &MKey{Held: c.held(rankWindow, "MW"), PD: p, Kind: KeyMW1, Mem: c.Mem, Free: true}
	if typ == 2 {
		k.Kind = KeyMW2
	}
	if e := d.newKey(k); e != 0 {
		return nil, e
	}
	k.Use(p)
	k.life.end = k.deallocate
	d.keys().liveMWs++
	return added(c, k)
}

// deallocate gives back what a window has, bound or not.
func (k *MKey) deallocate() {
	k.Unbind()
	d := k.Context.Device
	d.freeKey(k)
	d.keys().liveMWs--
}

// MW returns the window of a handle, which no other key will do for.
func MW(c *Context, handle uint32) (*MKey, unix.Errno) {
	k, e := Find[*MKey](c, handle)
	if e == 0 && !k.window() {
		e = unix.EINVAL
	}
	return k, e
}
