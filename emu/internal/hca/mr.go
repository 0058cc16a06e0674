//go:build linux

package hca

import (
	"math"
	"math/bits"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

const (
	accessKnown = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessMWBind |
		AccessZeroBased | AccessOnDemand | AccessHugeTLB
	// optional bits are accepted and ignored where the device cannot do them.
	accessOptional = Access(0x3ff << 20)
)

// checkMR checks what a registration asks for.
func checkMR(c *Context, mem guest.Mem, addr, length, iova uint64, access Access) unix.Errno {
	switch {
	case access&^(accessKnown|accessOptional) != 0: // checked before, for it depends on the kernel
		return unix.EINVAL
	case access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0:
		return unix.EINVAL
	case whole(addr, length, access):
		if iova != 0 {
			return unix.EINVAL
		}
		return 0
	case addr%pageSize != iova%pageSize:
		return unix.EINVAL
	case length == 0 || addr+length < addr || iova+length < iova && iova+length != 0:
		return unix.EINVAL
	case length > c.Device.Config.Limits.MaxMRSize:
		return unix.EINVAL
	case access&AccessOnDemand == 0 && !mem.Mapped(addr, length, access.writable()):
		return unix.EFAULT
	}
	return 0
}

// locked returns the bytes of whole pages that a registration holds.
func locked(addr, length uint64) uint64 {
	return (addr+length+pageSize-1)&^(pageSize-1) - addr&^(pageSize-1)
}

// RegMR registers memory of the calling process, with advice on DMA unless its handle is 0.
func RegMR(c *Context, dmah, pd uint32, addr, length, iova uint64, access Access) (*MKey, unix.Errno) {
	k := &MKey{Held: c.held(rankRegion, "MR"), Kind: KeyMR, Mem: c.Mem}
	if e := k.find(pd, dmah); e != 0 {
		return nil, e
	}
	if e := checkMR(c, c.Mem, addr, length, iova, access); e != 0 {
		return nil, e
	}
	k.register(addr, length, iova, access)
	return k, k.addTo(c)
}

// find finds the objects that a region is made with.
func (k *MKey) find(pd, dmah uint32) (e unix.Errno) {
	if k.PD, e = Find[*PD](k.Context, pd); e != 0 {
		return e
	}
	k.Use(k.PD)
	if dmah != 0 {
		if k.dmah, e = Find[*DMAHandle](k.Context, dmah); e == 0 {
			k.Use(k.dmah)
		}
	}
	return e
}

// register makes k a region of memory of its own.
func (k *MKey) register(addr, length, iova uint64, access Access) {
	k.set(addr, length, iova, access)
	k.writable = access.writable()
	if access&AccessOnDemand != 0 {
		k.Paging = &Paging{blocks: map[uint64]*[blockPages / 64]uint64{}}
	} else {
		k.room = tableRoom(addr, length)
	}
}

// addTo makes a region part of a context and its device.
func (k *MKey) addTo(c *Context) unix.Errno {
	d := c.Device
	if d.keys().liveMRs >= d.Config.Limits.MaxMR {
		return unix.ENOMEM
	}
	if e := d.Fabric.charge(k.Mem.PID, k.locks()); e != 0 {
		return e
	}
	if e := d.newKey(k); e != 0 {
		d.Fabric.discharge(k.Mem.PID, k.locks())
		return e
	}
	k.life.end = k.deregister
	d.keys().liveMRs++
	c.add(k)
	return 0
}

// Pins reports whether a region is memory of a program that it must not give back meanwhile.
func (k *MKey) Pins() bool { return k.dm == nil && k.dmabuf == nil && k.Paging == nil }

// locks returns the bytes that a region counts as locked.
func (k *MKey) locks() uint64 {
	if k.Pins() {
		return locked(k.Addr, k.Len)
	}
	return 0
}

func (k *MKey) set(addr, length, iova uint64, access Access) {
	k.Addr, k.Len, k.Base, k.Access = addr, length, iova, access
	if access&AccessZeroBased != 0 {
		k.Base = 0
	}
}

// tableRoom returns how many pages fit into the translation table that a region gets: mlx5_ib keeps tables of powers of
// two. Pages count as 4 KiB each; a host with larger ones may need fewer, on which nobody can count.
func tableRoom(addr, length uint64) uint64 {
	const least = 4
	return max(uint64(1)<<bits.Len64(locked(addr, length)/pageSize-1), least)
}

// Flags of Reregister. C: IB_MR_REREG_*.
const (
	reregTrans  = 1
	reregPD     = 2
	reregAccess = 4
)

// reregRights are the rights that mlx5_ib changes in place, by a UMR.
const reregRights = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessRelaxed

// Reregister changes a registration, in place where mlx5_ib can: with other rights of some kinds, in another PD, with
// memory that fits the table. Else it becomes a new one, with a new key. C: ib_uverbs_rereg_mr, mlx5_ib_rereg_user_mr.
func (k *MKey) Reregister(flags, pd uint32, addr, length, iova uint64, access Access) unix.Errno {
	c, e := k.Context, unix.Errno(0)
	if flags == 0 || flags&^(reregTrans|reregPD|reregAccess) != 0 || k.dm != nil {
		return unix.EINVAL
	}
	p, trans := k.PD, flags&reregTrans != 0
	if flags&reregPD != 0 {
		if p, e = Find[*PD](c, pd); e != 0 {
			return e
		}
	}
	switch {
	case k.dmah != nil:
		return unix.EOPNOTSUPP
	case flags&reregAccess == 0:
		access = k.Access
	case !trans && access.writable() && !k.writable: // pages that were pinned to be read
		return unix.EACCES
	}
	if k.Uses() > 0 {
		return unix.EBUSY
	}
	same := (k.Access^access)&^reregRights == 0
	switch implicit := k.Paging != nil && whole(k.Addr, k.Len, k.Access); {
	case trans:
	case implicit && access&AccessOnDemand != 0:
		addr, length, iova, trans = 0, math.MaxUint64, 0, true
	case same && !implicit:
		c.Device.revoke(k)
		k.move(p)
		k.Access = access
		return 0
	case !k.Pins(), access&AccessOnDemand != 0:
		return unix.EOPNOTSUPP
	}
	mem := c.Mem
	if !trans {
		mem, addr, length, iova = k.Mem, k.Addr, k.Len, k.Base
		if k.Access&AccessZeroBased != 0 {
			iova = addr
		}
	}
	if e := checkMR(c, mem, addr, length, iova, access); e != 0 {
		return e
	}
	next := &MKey{Mem: mem}
	next.register(addr, length, iova, access)
	if !trans {
		next.writable = k.writable
	}
	return k.replace(next, p, same)
}

// replace makes k the region that next is, in a PD. The key stays if mlx5_ib can change the region in place: its rights
// are so far the same.
func (k *MKey) replace(next *MKey, p *PD, same bool) unix.Errno {
	d, mem := k.Context.Device, next.Mem
	f := d.Fabric
	f.discharge(k.Mem.PID, k.locks())
	if e := f.charge(mem.PID, next.locks()); e != 0 {
		_ = f.charge(k.Mem.PID, k.locks())
		return e
	}
	d.revoke(k)
	if !same || !k.Pins() || !next.Pins() || next.locks()/pageSize > k.room {
		was := k.Key
		if e := d.newKey(k); e != 0 {
			f.discharge(mem.PID, next.locks())
			_ = f.charge(k.Mem.PID, k.locks())
			return e
		}
		d.keys().free(was >> 8)
	} else {
		next.room = k.room
	}
	if k.dmabuf != nil {
		_ = unix.Munmap(k.dmabuf)
	}
	k.move(p)
	k.Mem, k.Addr, k.Len, k.Base, k.Access = next.Mem, next.Addr, next.Len, next.Base, next.Access
	k.Paging, k.room, k.writable, k.dmabuf = next.Paging, next.room, next.writable, nil
	return 0
}

// move puts a region into a PD.
func (k *MKey) move(to *PD) {
	k.PD.Hold(-1)
	to.Hold(1)
	k.life.uses[slices.Index(k.life.uses, Object(k.PD))], k.PD = to, to
}

// MR returns the region of a handle, which no other key will do for.
func MR(c *Context, handle uint32) (*MKey, unix.Errno) {
	k, e := Find[*MKey](c, handle)
	if e == 0 && k.Kind != KeyMR {
		e = unix.EINVAL
	}
	return k, e
}

// deregister gives back what a registration has.
func (k *MKey) deregister() {
	d := k.Context.Device
	d.freeKey(k)
	d.Fabric.discharge(k.Mem.PID, k.locks())
	if k.dmabuf != nil {
		_ = unix.Munmap(k.dmabuf)
	}
	d.keys().liveMRs--
	k.Free = true
}

// window reports whether the key is a memory window.
func (k *MKey) window() bool { return k.Kind == KeyMW1 || k.Kind == KeyMW2 }
