package mlx5

import (
	"encoding/binary"
	"math"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

const objectDM = 14 // C: UVERBS_OBJECT_DM

// AllocDM allocates device memory and maps it.
func (c *context) AllocDM(a *abi.AllocDMAttr) (*dm, error) {
	return c.DVAllocDM(a, &abi.MLX5DVAllocDMAttr{Type: abi.MLX5DV_DM_TYPE_MEMIC})
}

// DVAllocDM allocates device memory of a type of mlx5. Only that for data is mapped: the device reads the other types
// when it steers.
func (c *context) DVAllocDM(a *abi.AllocDMAttr, dv *abi.MLX5DVAllocDMAttr) (_ *dm, err error) {
	typ := dv.Type
	switch {
	case dv.CompMask != 0:
		return nil, syscall.EINVAL
	case typ > abi.MLX5DV_DM_TYPE_ENCAP_SW_ICM:
		return nil, syscall.EOPNOTSUPP
	case a.CompMask != 0 || a.Length == 0 || uint64(a.Length) > math.MaxInt32:
		return nil, syscall.EINVAL
	}
	d, data := &dm{object: object{c: c}, length: uint64(a.Length)}, typ == abi.MLX5DV_DM_TYPE_MEMIC
	off, page := new(uint64), new(uint16)
	d.number, err = c.file.AllocDM(d.length, a.LogAlignReq, uverbs.Out(attr0, uverbs.Bytes(off)),
		uverbs.If(data, uverbs.Out(attr0+1, uverbs.Bytes(page))), uverbs.If(!data, uverbs.Uint64(attr0+2, uint64(typ))))
	if err != nil {
		return nil, unsupported(err)
	}
	if data {
		err = d.mapped(*off, *page)
	}
	if err != nil {
		return nil, c.undo(err, c.file.FreeDM(d.number))
	}
	return d, nil
}

// pages maps the pages of device memory, which begins at off in the first one.
func (d *dm) pages(off uint64, page uint16) (mem []byte, begin uint64, err error) {
	size := uint64(uverbs.PageSize())
	begin = off % size
	mem, err = d.c.file.Map(mapOffset(mapDM, int(page)), int(roundUp(begin+d.length, size)),
		uverbs.Readable|uverbs.Writable)
	return mem, begin, err
}

// mapped maps the memory.
func (d *dm) mapped(off uint64, page uint16) (err error) {
	var begin uint64
	if d.mem, begin, err = d.pages(off, page); err == nil {
		d.words = cmem.Slice[uint32](cmem.SliceAddr(d.mem[begin&^3:]), int(d.length/4))
	}
	return err
}

// DMMapOpAddr maps where a store has the effect of an operation. The mapping is the program's.
func (d *dm) DMMapOpAddr(op uint8) (uintptr, error) {
	const mapOp = driverNamespace // C: MLX5_IB_METHOD_DM_MAP_OP_ADDR
	if d.mem == nil {
		return 0, syscall.EOPNOTSUPP
	}
	off, page := new(uint64), new(uint16)
	err := d.c.file.Method("map_dm_op", objectDM, mapOp, uverbs.Handle(attr0, d.number),
		uverbs.In(attr0+1, []byte{op}), uverbs.Out(attr0+2, uverbs.Bytes(off)), uverbs.Out(attr0+3, uverbs.Bytes(page)))
	if err != nil {
		return 0, unsupported(err)
	}
	mem, begin, err := d.pages(*off, *page)
	if err != nil {
		return 0, err
	}
	return cmem.SliceAddr(mem[begin:]), nil
}

// ImportDM returns device memory of another process with the same context.
func (c *context) ImportDM(number uint32) (*dm, error) {
	const query = driverNamespace + 1 // C: MLX5_IB_METHOD_DM_QUERY
	d := &dm{object: object{c: c}, number: number}
	off, page := new(uint64), new(uint16)
	err := c.file.Method("query_dm", objectDM, query, uverbs.Handle(attr0, number),
		uverbs.Out(attr0+1, uverbs.Bytes(off)), uverbs.Out(attr0+2, uverbs.Bytes(page)),
		uverbs.Out(attr0+3, uverbs.Bytes(&d.length)))
	if err != nil {
		return nil, unsupported(err)
	}
	if d.length == 0 || d.length > math.MaxInt32 {
		return nil, &uverbs.ReplyError{Command: "query_dm", Field: "length", Got: d.length, Want: "1 to 1<<31-1"}
	}
	return d, d.mapped(*off, *page)
}

// UnimportDM forgets it.
func (d *dm) UnimportDM() error {
	d.c.v.table.remove(d.handle)
	return uverbs.Unmap(d.mem)
}

// FreeDM frees device memory.
func (d *dm) FreeDM() error {
	if err := d.c.destroyed(d.c.file.FreeDM(d.number)); err != nil {
		return err
	}
	d.c.v.table.remove(d.handle)
	return uverbs.Unmap(d.mem)
}

// part returns the words of n bytes at off. The bus takes whole words.
func (d *dm) part(off uint64, n int) ([]uint32, error) {
	switch {
	case d.words == nil || off > d.length || uint64(n) > d.length-off:
		return nil, syscall.EFAULT
	case off%4 != 0 || n%4 != 0:
		return nil, syscall.EINVAL
	}
	return d.words[off/4 : (off+uint64(n))/4], nil
}

// MemcpyToDM writes device memory.
func (d *dm) MemcpyToDM(off uint64, p []byte) error {
	words, err := d.part(off, len(p))
	for i := range words {
		words[i] = binary.NativeEndian.Uint32(p[4*i:])
	}
	return err
}

// MemcpyFromDM reads device memory.
func (v *Verbs) MemcpyFromDM(p []byte, h handle, off uint64) error {
	d, err := get[dm](v, h)
	if err != nil {
		return err
	}
	words, err := d.part(off, len(p))
	for i, w := range words {
		binary.NativeEndian.PutUint32(p[4*i:], w)
	}
	return err
}

// DMNumber returns the kernel's handle of device memory.
func (d *dm) DMNumber() (number uint32, ok bool) { return d.number, true }

// RegDMMR registers a part of device memory.
func (p *pd) RegDMMR(d *dm, off uint64, length int, access uint32) (*mr, error) {
	const allowed = abi.IBV_ACCESS_LOCAL_WRITE | abi.IBV_ACCESS_REMOTE_WRITE | abi.IBV_ACCESS_REMOTE_READ |
		abi.IBV_ACCESS_REMOTE_ATOMIC | abi.IBV_ACCESS_ZERO_BASED | abi.IBV_ACCESS_OPTIONAL_RANGE
	if access&^allowed != 0 || access&abi.IBV_ACCESS_ZERO_BASED == 0 || length < 0 {
		return nil, syscall.EINVAL
	}
	k, err := p.c.file.RegDMMR(p.number, d.number, off, uint64(length), p.c.access(access))
	return p.region(0, length, k), unsupported(err)
}
