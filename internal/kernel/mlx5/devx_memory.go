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
func (d *devX) DevXUmemReg(ctx handle, addr uintptr, size int, access uint32) (handle, uint32, error) {
	return d.umem(ctx, &abi.MLX5DVDevXUmemIn{Addr: addr, Size: uintptr(size), Access: access},
		uverbs.Ignorable(uverbs.Uint64(attr0+5, anySize)))
}

// DevXUmemRegEx registers memory with attributes.
func (d *devX) DevXUmemRegEx(ctx handle, in *abi.MLX5DVDevXUmemIn) (handle, uint32, error) {
	sizes := uverbs.Uint64(attr0+5, in.PgszBitmap)
	switch {
	case in.CompMask&^abi.MLX5DV_UMEM_MASK_DMABUF != 0:
		return 0, 0, syscall.EOPNOTSUPP
	case in.CompMask == 0:
		return d.umem(ctx, in, sizes)
	case in.DmabufFD < 0:
		return 0, 0, syscall.EBADF
	}
	return d.umem(ctx, in, sizes, uverbs.FD(attr0+6, int(in.DmabufFD)))
}

func (d *devX) umem(ctx handle, in *abi.MLX5DVDevXUmemIn, more ...uverbs.Arg) (handle, uint32, error) {
	c, err := get[context](d.v, ctx)
	if err != nil {
		return 0, 0, err
	}
	u, id := &umem{newKernelObject(c)}, new(uint32)
	err = c.creates("devx_umem_reg", objectUmem, &u.number, append(more,
		uverbs.Uint64(attr0+1, uint64(in.Addr)), uverbs.Uint64(attr0+2, uint64(in.Size)),
		uverbs.Uint32(attr0+3, in.Access), uverbs.Out(attr0+4, uverbs.Bytes(id)))...)
	if err != nil {
		return 0, 0, err
	}
	return d.v.table.add(u), *id, nil
}

// DevXUmemDereg ends a registration.
func (d *devX) DevXUmemDereg(h handle) error {
	return ends(d.v, h, func(u *umem) error { return u.c.drop("devx_umem_dereg", objectUmem, u.number) })
}

// DevXAllocUAR returns a page of doorbell registers: a register that nobody else has, the page of the context, or a
// page of its own.
func (d *devX) DevXAllocUAR(ctx handle, flags uint32) (*abi.MLX5DVDevXUAR, handle, error) {
	c, err := get[context](d.v, ctx)
	if err != nil {
		return nil, 0, err
	}
	u := &uar{object: object{c: c}}
	page := uint32(0)
	switch flags {
	case abi.MLX5DV_UAR_ALLOC_TYPE_BF:
		if u.taken, err = c.bars.take(true); err != nil {
			return nil, 0, err
		}
		u.reg = u.taken
		if page, err = u.reg.uarPage(c); err != nil {
			c.bars.give(u.taken)
			return nil, 0, err
		}
	case abi.MLX5DV_UAR_ALLOC_TYPE_NC:
		if c.bars.static != nil {
			return nil, 0, syscall.EOPNOTSUPP
		}
		nc, err := c.bars.uncached()
		if err != nil {
			return nil, 0, err
		}
		u.reg, page = &register{bar: nc, offset: regOffset}, nc.page
	case abi.MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED:
		if u.own, err = c.bars.alloc(uarNC); err != nil {
			return nil, 0, err
		}
		u.reg, page = &register{bar: u.own, offset: regOffset}, u.own.page
	default:
		return nil, 0, syscall.EOPNOTSUPP
	}
	u.handle = d.v.table.add(u)
	b := u.reg.bar
	return &abi.MLX5DVDevXUAR{RegAddr: u.reg.addr(), BaseAddr: cmem.SliceAddr(b.mem), PageID: page, MmapOff: b.at},
		u.handle, nil
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
func (d *devX) DevXFreeUAR(h handle) error {
	return ends(d.v, h, func(u *uar) error {
		switch {
		case u.taken != nil:
			u.c.bars.give(u.taken)
		case u.own != nil:
			return u.c.bars.free(u.own)
		}
		return nil
	})
}

// AllocVAR allocates a doorbell page of emulated virtio devices, which the caller maps.
func (d *devX) AllocVAR(ctx handle) (*abi.MLX5DVVAR, handle, error) {
	c, err := get[context](d.v, ctx)
	if err != nil {
		return nil, 0, err
	}
	n, off, a := &varPage{newKernelObject(c)}, new(uint64), new(abi.MLX5DVVAR)
	err = c.creates("var_alloc", objectVAR, &n.number, uverbs.Out(attr0+1, uverbs.Bytes(off)),
		uverbs.Out(attr0+2, uverbs.Bytes(&a.Length)), uverbs.Out(attr0+3, uverbs.Bytes(&a.PageID)))
	if err != nil {
		return nil, 0, err
	}
	if err := checkPage("var_alloc", *off, a.Length); err != nil {
		return nil, 0, also(err, c.drop("var_destroy", objectVAR, n.number))
	}
	a.MmapOff = int64(*off)
	n.handle = d.v.table.add(n)
	return a, n.handle, nil
}

// FreeVAR gives a page back.
func (d *devX) FreeVAR(h handle) error {
	return ends(d.v, h, func(n *varPage) error { return n.c.drop("var_destroy", objectVAR, n.number) })
}
