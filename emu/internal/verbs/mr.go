//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Rights that are hints, ignored where not known, those that must be known, and those of them that no adapter here has.
const (
	accessOptional = 0x3ff << 20
	accessKnown    = 0x3ff
	accessFlush    = 0x300
)

// access checks rights as the kernel does before it asks the driver. C: ib_check_mr_access.
func access(v uint32) unix.Errno {
	a := hca.Access(v) &^ accessOptional
	switch {
	case a&^accessKnown != 0, a&(hca.AccessRemoteWrite|hca.AccessRemoteAtomic) != 0 && a&hca.AccessLocalWrite == 0:
		return unix.EINVAL
	case a&accessFlush != 0:
		return unix.EOPNOTSUPP
	}
	return 0
}

// unaligned means that a region's address and its address on the wire lie differently in their pages.
func unaligned(start, iova uint64) bool { return (start^iova)&(pageSize-1) != 0 }

func regMR(c *call) (e unix.Errno) {
	var q uapi.RegMR
	switch {
	case c.b == nil:
		q, e = uapi.Take[uapi.RegMR](c.r)
	case c.b.Has(7): // memory of a dma-buf
		return regBuffer(c)
	case c.b.Has(2) && c.b.Uint(6)&uint64(hca.AccessOnDemand) != 0: // Linux, mlx5_ib_reg_user_mr
		return refuse(c)
	case !c.b.Has(4), c.b.Has(8), c.b.Uint(6)>>32 != 0:
		return unix.EINVAL
	default:
		q = uapi.RegMR{PDHandle: uint32(c.b.Uint(1)), HcaVa: c.b.Uint(3), Start: c.b.Uint(4), Length: c.b.Uint(5),
			AccessFlags: uint32(c.b.Uint(6))}
	}
	if e == 0 && unaligned(q.Start, q.HcaVa) {
		e = unix.EINVAL
	}
	if e = first(e, access(q.AccessFlags)); e != 0 {
		return e
	}
	c.req = q
	return newMR(c, 9, 10, func() (*hca.MKey, unix.Errno) {
		return hca.RegMR(c.ctx, c.advice(), q.PDHandle, q.Start, q.Length, q.HcaVa, hca.Access(q.AccessFlags))
	})
}

// regBuffer is reg_mr of a dma-buf, which has an offset and no address.
func regBuffer(c *call) unix.Errno {
	b := c.b
	if !b.Has(8) || b.Has(4) || b.Uint(6)>>32 != 0 {
		return unix.EINVAL
	}
	return newMR(c, 9, 10, func() (*hca.MKey, unix.Errno) {
		return hca.RegDmabuf(c.ctx, uint32(b.Uint(1)), int(int32(b.Uint(7))), b.Uint(8), b.Uint(5), b.Uint(3),
			hca.Access(b.Uint(6)), c.advice())
	})
}

// What rereg_mr changes. C: enum ib_mr_rereg_flags.
const (
	reregTrans = 1 << iota
	_
	reregAccess
	reregAll = 7
)

func reregMR(c *call, q *uapi.ReregMR) unix.Errno {
	switch {
	case q.Flags == 0, q.Flags&reregTrans != 0 && unaligned(q.Start, q.HcaVa):
		return unix.EINVAL
	case q.Flags&^reregAll != 0:
		return unix.EOPNOTSUPP
	case q.Flags&reregAccess != 0 && access(q.AccessFlags) != 0:
		return access(q.AccessFlags)
	}
	return answer(c, func() (v uapi.ReregMRResp, e unix.Errno) {
		k, e := hca.MR(c.ctx, q.MRHandle)
		if e == 0 {
			e = k.Reregister(q.Flags, q.PDHandle, q.Start, q.Length, q.HcaVa, hca.Access(q.AccessFlags))
			v.Lkey, v.Rkey = k.Key, k.Key
		}
		return v, e
	})
}

func queryMR(c *call) unix.Errno {
	k, e := get(c, func() (hca.MKey, unix.Errno) { return copied(hca.MR(c.ctx, uint32(c.b.Uint(0)))) })
	return first(e, out(c, 1, k.Key), out(c, 2, k.Key), out(c, 3, k.Len), out(c, 4, k.Base))
}

func adviseMR(c *call) unix.Errno {
	b, size := c.b.Bytes(3), uapi.Size[uapi.SGE]()
	if len(b)%size != 0 {
		return unix.EINVAL
	}
	var all []hca.Advised
	for ; len(b) > 0; b = b[size:] {
		s := uapi.Decode[uapi.SGE](b[:size])
		all = append(all, hca.Advised{LKey: s.Lkey, Addr: s.Addr, N: uint64(s.Length)})
	}
	return c.do(func() unix.Errno {
		return hca.Advise(c.ctx, uint32(c.b.Uint(0)), c.b.Uint(1), uint32(c.b.Uint(2)), all)
	})
}

func regDmabuf(c *call) unix.Errno {
	b := c.b
	const dataDirect = 1 // there is no such function
	switch own := b.Uint(uapi.DriverNS); {
	case b.Uint(6)>>32 != 0, own&^dataDirect != 0:
		return unix.EINVAL
	case own != 0:
		return refuse(c)
	}
	return newMR(c, 7, 8, func() (*hca.MKey, unix.Errno) {
		return hca.RegDmabuf(c.ctx, uint32(b.Uint(1)), int(int32(b.Uint(5))), b.Uint(2), b.Uint(3), b.Uint(4),
			hca.Access(b.Uint(6)), 0)
	})
}

// advice returns the handle of the ioctl's advice on DMA, or 0.
func (c *call) advice() uint32 {
	if c.b == nil {
		return 0
	}
	return uint32(c.b.Uint(2))
}

// newMR makes a region and tells its handle, and its keys in the attributes lkey and rkey.
func newMR(c *call, lkey, rkey uint16, f func() (*hca.MKey, unix.Errno)) unix.Errno {
	k, e := newKey(c, f)
	if e != 0 {
		return e
	}
	v := uapi.MRResp{MRHandle: k.Handle, Lkey: k.Key, Rkey: k.Key}
	return first(told(c, v, k.Handle), out(c, lkey, k.Key), out(c, rkey, k.Key))
}

// newKey makes a region or a window.
func newKey(c *call, f func() (*hca.MKey, unix.Errno)) (hca.MKey, unix.Errno) {
	return create(c, func() (hca.MKey, unix.Errno) { return copied(f()) },
		func(k hca.MKey) { hca.Destroy[*hca.MKey](c.ctx, k.Handle) })
}
