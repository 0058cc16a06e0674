package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
)

// Umem is memory that the device uses for objects of DevX: rings, doorbell records. Commands name it
// by its number.
//
// It belongs to its Device. Close fails while an object of the device uses it, and can be called
// again.
//
// C: struct mlx5dv_devx_umem.
type Umem struct {
	node
	id  uint32
	mem []byte
	pin *dma.Pinned
}

// UmemOptions configures a Umem. The zero value selects the defaults.
//
// C: struct mlx5dv_devx_umem_in.
type UmemOptions struct {
	// Access has the operations that the device may do: LocalWrite, RemoteRead and RemoteWrite. 0 is LocalWrite.
	Access ibv.AccessFlags
	// PageSizes lists the page sizes that the device may map the memory with, as a sum of powers of
	// two; 0 is any. It needs libmlx5 v35.
	PageSizes uint64
}

// RegUmem registers memory; opt may be nil. Memory of the Go heap is pinned until Close; memory of
// PD.AllocMR begins with a page, as most commands want it.
//
// C: mlx5dv_devx_umem_reg(3), mlx5dv_devx_umem_reg_ex(3) with PageSizes.
func RegUmem(dev *ibv.Device, mem []byte, opt *UmemOptions) (*Umem, error) {
	if opt == nil {
		opt = &UmemOptions{}
	}
	const possible = ibv.LocalWrite | ibv.RemoteRead | ibv.RemoteWrite
	return regUmem(dev, func(in *abi.MLX5DVDevXUmemIn, u *Umem) error {
		switch {
		case len(mem) == 0:
			return &ibv.ArgError{Arg: "mem", Got: "0 bytes", Want: "at least 1 byte"}
		case opt.Access&^possible != 0:
			return &ibv.ArgError{Arg: "Access", Got: opt.Access.String(), Want: "of " + possible.String()}
		case opt.Access == 0:
			in.Access = uint32(ibv.LocalWrite)
		default:
			in.Access = uint32(opt.Access)
		}
		in.Addr, in.Size, in.PgszBitmap = cmem.SliceAddr(mem), uintptr(len(mem)), opt.PageSizes
		u.mem, u.pin = mem, dma.Pin(mem)
		return nil
	})
}

// RegUmemDmabuf registers length bytes at offset off of a dma-buf, whose descriptor is fd.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_devx_umem_reg_ex(3), of libmlx5 v44.
func RegUmemDmabuf(dev *ibv.Device, fd int, off uint64, length int, access ibv.AccessFlags) (*Umem, error) {
	return regUmem(dev, func(in *abi.MLX5DVDevXUmemIn, u *Umem) error {
		switch {
		case fd < 0 || int(int32(fd)) != fd:
			return &ibv.ArgError{Arg: "fd", Got: fmt.Sprint(fd), Want: "the descriptor of a dma-buf"}
		case length < 1:
			return &ibv.ArgError{Arg: "length", Got: fmt.Sprint(length), Want: "at least 1 byte"}
		}
		in.Addr, in.Size, in.Access = uintptr(off), uintptr(length), uint32(access)
		in.CompMask, in.DmabufFD = abi.MLX5DV_UMEM_MASK_DMABUF, int32(fd)
		return nil
	})
}

// regUmem registers what prepare fills in.
func regUmem(dev *ibv.Device, prepare func(*abi.MLX5DVDevXUmemIn, *Umem) error) (*Umem, error) {
	c, u := begin(dev, "mlx5dv register umem"), new(Umem)
	return create(c, u, &u.node, "umem", func() (h uintptr, err error) {
		in := new(abi.MLX5DVDevXUmemIn)
		if err := prepare(in, u); err != nil {
			return 0, err
		}
		if in.PgszBitmap == 0 && in.CompMask == 0 {
			h, u.id, err = c.lib.DevXUmemReg(c.handle, in.Addr, int(in.Size), in.Access)
		} else {
			if in.PgszBitmap == 0 {
				in.PgszBitmap = ^uint64(4095)
			}
			h, u.id, err = c.lib.DevXUmemRegEx(c.handle, in)
		}
		if err != nil {
			u.pin.Unpin()
		}
		return h, explainDevX(dev, err)
	})
}

// ID returns the number by which commands name the memory.
func (u *Umem) ID() uint32 { return u.id }

// Bytes returns the memory; nil for a dma-buf.
func (u *Umem) Bytes() []byte { return u.mem }

// Close ends the registration.
//
// C: mlx5dv_devx_umem_dereg(3).
func (u *Umem) Close() error {
	return u.close(func() error {
		err := u.lib.DevXUmemDereg(u.handle)
		if err == nil {
			u.pin.Unpin()
		}
		return err
	})
}
