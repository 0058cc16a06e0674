package mlx5

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// anySize are all sizes of pages.
const anySize = ^uint64(1<<12 - 1)

// DevXUmemReg registers memory for objects of DevX. A kernel that does not know sizes of pages has one.
func (c devX) DevXUmemReg(addr uintptr, size int, access uint32) (*umem, uint32, error) {
	return c.umem(&abi.MLX5DVDevXUmemIn{Addr: addr, Size: uintptr(size), Access: access},
		uverbs.Ignorable(uverbs.Uint64(attr0+5, anySize)))
}

// DevXUmemRegEx registers memory with attributes.
func (c devX) DevXUmemRegEx(in *abi.MLX5DVDevXUmemIn) (*umem, uint32, error) {
	sizes := uverbs.Uint64(attr0+5, in.PgszBitmap)
	switch {
	case in.CompMask&^abi.MLX5DV_UMEM_MASK_DMABUF != 0:
		return nil, 0, syscall.EOPNOTSUPP
	case in.CompMask == 0:
		return c.umem(in, sizes)
	case in.DmabufFD < 0:
		return nil, 0, syscall.EBADF
	}
	return c.umem(in, sizes, uverbs.FD(attr0+6, int(in.DmabufFD)))
}

func (c devX) umem(in *abi.MLX5DVDevXUmemIn, more ...uverbs.Arg) (*umem, uint32, error) {
	u, id := &umem{newKernelObject(c.context)}, new(uint32)
	err := c.creates("devx_umem_reg", objectUmem, &u.number, append(more,
		uverbs.Uint64(attr0+1, uint64(in.Addr)), uverbs.Uint64(attr0+2, uint64(in.Size)),
		uverbs.Uint32(attr0+3, in.Access), uverbs.Out(attr0+4, uverbs.Bytes(id)))...)
	return u, *id, err
}

// DevXUmemDereg ends a registration.
func (u *umem) DevXUmemDereg() error { return u.c.drop("devx_umem_dereg", objectUmem, u.number) }

// DevXAllocUAR returns a page of doorbell registers: a register that nobody else has, the page of the context, or a
// page of its own.
func (c devX) DevXAllocUAR(flags uint32) (_ *abi.MLX5DVDevXUAR, u *uar, err error) {
	u = &uar{object: object{c: c.context}}
	page := uint32(0)
	switch flags {
	case abi.MLX5DV_UAR_ALLOC_TYPE_BF:
		if u.taken, err = c.bars.take(true); err != nil {
			return nil, nil, err
		}
		u.reg = u.taken
		if page, err = u.reg.uarPage(c.context); err != nil {
			c.bars.give(u.taken)
			return nil, nil, err
		}
	case abi.MLX5DV_UAR_ALLOC_TYPE_NC:
		if c.bars.static != nil {
			return nil, nil, syscall.EOPNOTSUPP
		}
		nc, err := c.bars.uncached()
		if err != nil {
			return nil, nil, err
		}
		u.reg, page = &register{bar: nc, offset: regOffset}, nc.page
	case abi.MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED:
		if u.own, err = c.bars.alloc(uarNC); err != nil {
			return nil, nil, err
		}
		u.reg, page = &register{bar: u.own, offset: regOffset}, u.own.page
	default:
		return nil, nil, syscall.EOPNOTSUPP
	}
	b := u.reg.bar
	return &abi.MLX5DVDevXUAR{RegAddr: u.reg.addr(), BaseAddr: cmem.SliceAddr(b.mem), PageID: page,
		MmapOff: b.at}, u, nil
}

// uarPage returns the device's number of the page that a register is in.
func (r *register) uarPage(c *context) (uint32, error) {
	if r.bar.dynamic {
		return r.bar.page + uint32(r.slot/regsPerUAR), nil
	}
	page := new(uint32)
	err := c.file.Method("devx_query_uar", objectDevX, devxQueryUAR, uverbs.Uint32(attr0, r.number),
		uverbs.Out(attr0+1, uverbs.Bytes(page)))
	return *page, unsupported(err)
}

// DevXFreeUAR gives a page back.
func (u *uar) DevXFreeUAR() error {
	switch {
	case u.taken != nil:
		u.c.bars.give(u.taken)
	case u.own != nil:
		return u.c.bars.free(u.own)
	}
	return nil
}

// AllocVAR allocates a doorbell page of emulated virtio devices, which the caller maps.
func (c devX) AllocVAR() (*abi.MLX5DVVAR, *varPage, error) {
	n, off, a := &varPage{newKernelObject(c.context)}, new(uint64), new(abi.MLX5DVVAR)
	err := c.creates("var_alloc", objectVAR, &n.number, uverbs.Out(attr0+1, uverbs.Bytes(off)),
		uverbs.Out(attr0+2, uverbs.Bytes(&a.Length)), uverbs.Out(attr0+3, uverbs.Bytes(&a.PageID)))
	if err != nil {
		return nil, nil, err
	}
	if err := checkPage("var_alloc", *off, a.Length); err != nil {
		return nil, nil, also(err, n.FreeVAR())
	}
	a.MmapOff = int64(*off)
	return a, n, nil
}

// FreeVAR gives a page back.
func (n *varPage) FreeVAR() error { return n.c.drop("var_destroy", objectVAR, n.number) }
