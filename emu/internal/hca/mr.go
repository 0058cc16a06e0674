//go:build linux

package hca

import (
	"math"
	"math/bits"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

const (
	accessKnown = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessMWBind |
		AccessZeroBased | AccessOnDemand | AccessHugeTLB
	// optional bits are accepted and ignored where the device cannot do them.
	accessOptional = Access(0x3ff << 20)

	firstKey = 0x100 // indices below are reserved, the invalid key among them
)

// checkMR checks what a registration asks for.
func (c *Context) checkMR(mem guest.Mem, addr, length, iova uint64, access Access) unix.Errno {
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

// writable reports whether memory that is registered so must be writable. C: ib_access_writable.
func (a Access) writable() bool {
	return a&(AccessLocalWrite|AccessRemoteWrite|AccessRemoteAtomic|AccessMWBind) != 0
}

// locked returns the bytes of whole pages that a registration holds.
func locked(addr, length uint64) uint64 {
	return (addr+length+pageSize-1)&^(pageSize-1) - addr&^(pageSize-1)
}

// charge counts locked memory of a process against the limit.
func (f *Fabric) charge(pid int, n uint64) unix.Errno {
	if lim := f.Config.MemlockLimit; lim != 0 && f.pinned[pid]+n > lim {
		return unix.ENOMEM
	}
	if f.pinned == nil {
		f.pinned = map[int]uint64{}
	}
	f.pinned[pid] += n
	return 0
}

func (f *Fabric) discharge(pid int, n uint64) {
	if f.pinned[pid] -= n; f.pinned[pid] == 0 {
		delete(f.pinned, pid)
	}
}

// RegMR registers memory of the calling process.
func (c *Context) RegMR(pd uint32, addr, length, iova uint64, access Access) (*MKey, unix.Errno) {
	p, e := c.PD(pd)
	if e != 0 {
		return nil, e
	}
	if e := c.checkMR(c.Mem, addr, length, iova, access); e != 0 {
		return nil, e
	}
	k := &MKey{PD: p, Kind: KeyMR, Mem: c.Mem}
	k.register(addr, length, iova, access)
	if e := c.addMR(k); e != 0 {
		return nil, e
	}
	return k, 0
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

// addMR makes a region part of its device.
func (c *Context) addMR(k *MKey) unix.Errno {
	d := c.Device
	if d.liveMRs >= d.Config.Limits.MaxMR {
		return unix.ENOMEM
	}
	if e := d.Fabric.charge(k.Mem.PID, k.locks()); e != 0 {
		return e
	}
	if e := d.newKey(k); e != 0 {
		d.Fabric.discharge(k.Mem.PID, k.locks())
		return e
	}
	k.PD.refs++
	d.liveMRs++
	k.Handle = c.add(k)
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

// Flags of ReregMR. C: IB_MR_REREG_*.
const (
	reregTrans  = 1
	reregPD     = 2
	reregAccess = 4
)

// reregRights are the rights that mlx5_ib changes in place, by a UMR.
const reregRights = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessRelaxed

// ReregMR changes a registration, in place where mlx5_ib can: with other rights of some kinds, in another PD, with
// memory that fits the table. Else it becomes a new one, with a new key. C: ib_uverbs_rereg_mr, mlx5_ib_rereg_user_mr.
func (c *Context) ReregMR(handle, flags, pd uint32, addr, length, iova uint64, access Access) (*MKey, unix.Errno) {
	k, e := c.mr(handle)
	if e != 0 {
		return nil, e
	}
	if flags == 0 || flags&^(reregTrans|reregPD|reregAccess) != 0 || k.dm != nil {
		return nil, unix.EINVAL
	}
	p, trans := k.PD, flags&reregTrans != 0
	if flags&reregPD != 0 {
		if p, e = c.PD(pd); e != 0 {
			return nil, e
		}
	}
	switch {
	case k.dmah != nil:
		return nil, unix.EOPNOTSUPP
	case flags&reregAccess == 0:
		access = k.Access
	case !trans && access.writable() && !k.writable: // pages that were pinned to be read
		return nil, unix.EACCES
	}
	if k.refs > 0 {
		return nil, unix.EBUSY
	}
	same := (k.Access^access)&^reregRights == 0
	switch implicit := k.Paging != nil && whole(k.Addr, k.Len, k.Access); {
	case trans:
	case implicit && access&AccessOnDemand != 0:
		addr, length, iova, trans = 0, math.MaxUint64, 0, true
	case same && !implicit:
		c.Device.Fabric.Engine.KeyRevoked(k)
		k.move(p)
		k.Access = access
		return k, 0
	case !k.Pins(), access&AccessOnDemand != 0:
		return nil, unix.EOPNOTSUPP
	}
	mem := c.Mem
	if !trans {
		mem, addr, length, iova = k.Mem, k.Addr, k.Len, k.Base
		if k.Access&AccessZeroBased != 0 {
			iova = addr
		}
	}
	if e := c.checkMR(mem, addr, length, iova, access); e != 0 {
		return nil, e
	}
	next := &MKey{Mem: mem}
	next.register(addr, length, iova, access)
	if !trans {
		next.writable = k.writable
	}
	d := c.Device
	f := d.Fabric
	f.discharge(k.Mem.PID, k.locks())
	if e := f.charge(mem.PID, next.locks()); e != 0 {
		_ = f.charge(k.Mem.PID, k.locks())
		return nil, e
	}
	f.Engine.KeyRevoked(k)
	if !same || !k.Pins() || !next.Pins() || next.locks()/pageSize > k.room {
		was := k.Key
		if e := d.newKey(k); e != 0 {
			f.discharge(mem.PID, next.locks())
			_ = f.charge(k.Mem.PID, k.locks())
			return nil, e
		}
		d.keys[was>>8] = nil
	} else {
		next.room = k.room
	}
	if k.dmabuf != nil {
		_ = unix.Munmap(k.dmabuf)
	}
	k.move(p)
	k.Mem, k.Addr, k.Len, k.Base, k.Access = next.Mem, next.Addr, next.Len, next.Base, next.Access
	k.Paging, k.room, k.writable, k.dmabuf = next.Paging, next.room, next.writable, nil
	return k, 0
}

// move puts a region into a PD.
func (k *MKey) move(to *PD) {
	k.PD.refs--
	to.refs++
	k.PD = to
}

func (c *Context) mr(handle uint32) (*MKey, unix.Errno) {
	k, e := c.Key(handle)
	if e == 0 && k.Kind != KeyMR {
		e = unix.EINVAL
	}
	return k, e
}

// DeregMR destroys a registration to which no window is bound.
func (c *Context) DeregMR(handle uint32) unix.Errno {
	k, e := c.mr(handle)
	if e != 0 {
		return e
	}
	if k.refs > 0 {
		return unix.EBUSY
	}
	c.Device.freeKey(k)
	c.Device.Fabric.discharge(k.Mem.PID, k.locks())
	if k.dmah != nil {
		k.dmah.refs--
	}
	if k.dm != nil {
		k.dm.refs--
	}
	if k.dmabuf != nil {
		_ = unix.Munmap(k.dmabuf)
	}
	k.PD.refs--
	c.Device.liveMRs--
	k.Free = true
	delete(c.objects, handle)
	return 0
}
