package mlx5

import (
	"math"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// region returns a memory region that the kernel has made.
func (p *pd) region(addr uintptr, length int, k *abi.UverbsMR) *mr {
	return &mr{object: object{c: p.c}, number: k.MRHandle, pd: p.handle, addr: addr, length: length, lkey: k.LKey,
		rkey: k.RKey}
}

// RegMR registers memory.
func (p *pd) RegMR(addr uintptr, length int, access uint32) (*mr, error) {
	return p.RegMRIOVA2(addr, length, uint64(addr), access)
}

// RegMRIOVA registers memory that has another address for the device.
func (p *pd) RegMRIOVA(addr uintptr, length int, iova uint64, access uint32) (*mr, error) {
	return p.RegMRIOVA2(addr, length, iova, access)
}

// RegMRIOVA2 is RegMRIOVA.
func (p *pd) RegMRIOVA2(addr uintptr, length int, iova uint64, access uint32) (*mr, error) {
	if length < 0 && (addr != 0 || length != -1) { // the whole address space is 0 to the largest size_t
		return nil, syscall.EINVAL
	}
	k, err := p.c.file.RegMR(&abi.UverbsRegMR{Start: uint64(addr), Length: uint64(length), HCAVA: iova,
		PDHandle: p.number, AccessFlags: p.c.access(access)})
	return p.region(addr, length, k), err
}

// access returns access flags, without the optional ones where the kernel does not know that they are optional.
func (c *context) access(flags uint32) uint32 {
	if !c.core.OptionalMR {
		flags &^= abi.IBV_ACCESS_OPTIONAL_RANGE
	}
	return flags
}

// HasRegMRIOVA2 returns true.
func (v *Verbs) HasRegMRIOVA2() bool { return true }

// RegDmabufMR registers a part of a dma-buf.
func (p *pd) RegDmabufMR(off uint64, length int, iova uint64, fd int, access uint32) (*mr, error) {
	return p.DVRegDmabufMR(off, length, iova, fd, access, 0)
}

// DVRegDmabufMR registers a part of a dma-buf, with access of mlx5's own.
func (p *pd) DVRegDmabufMR(off uint64, length int, iova uint64, fd int, access, own uint32) (*mr, error) {
	const directAttr = driverNamespace // C: MLX5_IB_ATTR_REG_DMABUF_MR_ACCESS_FLAGS
	if length < 0 || fd < 0 || int64(fd) > math.MaxInt32 {
		return nil, syscall.EINVAL
	}
	k, err := p.c.file.RegDmabufMR(p.number, off, uint64(length), iova, fd, p.c.access(access),
		uverbs.If(own != 0, uverbs.Uint32(directAttr, own)))
	return p.region(uintptr(off), length, k), unsupported(err)
}

// unsupported returns EOPNOTSUPP for a method that the kernel lacks.
func unsupported(err error) error {
	if uverbs.Absent(err) {
		return syscall.EOPNOTSUPP
	}
	return err
}

// ImportMR returns a memory region of another process with the same context.
func (p *pd) ImportMR(number uint32) (*mr, error) {
	k, length, err := p.c.file.QueryMR(number)
	if err != nil {
		return nil, unsupported(err)
	}
	if length > math.MaxInt {
		return nil, &uverbs.ReplyError{Command: "query_mr", Field: "length", Got: length, Want: "less than 1<<63"}
	}
	return p.region(0, int(length), k), nil
}

// UnimportMR forgets it.
func (m *mr) UnimportMR() error { return nil }

// AllocNullMR makes a memory region that swallows what is written to it, and reads as zeros.
func (p *pd) AllocNullMR() (*mr, error) {
	if p.c.info.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY == 0 {
		return nil, syscall.EOPNOTSUPP
	}
	return &mr{object: object{c: p.c}, null: true, pd: p.handle, length: -1, lkey: p.c.info.DumpFillMkey}, nil
}

// Flags of ReregMR, and its codes. C: enum ibv_rereg_mr_flags, ibv_rereg_mr_err_code.
const (
	reregTranslation = 1 << 0
	reregPD          = 1 << 1
	reregAccess      = 1 << 2

	reregBadInput = -1
	reregFailed   = -4
)

// ReregMR changes the parts of a memory region that flags name.
func (v *Verbs) ReregMR(h uintptr, flags uint32, domain handle, addr uintptr, length int, access uint32) (int, error) {
	m, err := get[mr](v, h)
	if err != nil {
		return reregBadInput, err
	}
	q := &abi.UverbsReregMR{MRHandle: m.number, Flags: flags, AccessFlags: access}
	switch {
	case flags&^(reregTranslation|reregPD|reregAccess) != 0, access != 0 && flags&reregAccess == 0,
		flags&reregTranslation != 0 && (length <= 0 || addr == 0), m.null:
		return reregBadInput, syscall.EINVAL
	case flags&reregTranslation != 0:
		q.Start, q.Length, q.HCAVA = uint64(addr), uint64(length), uint64(addr)
	}
	if flags&reregPD != 0 {
		p, err := get[pd](v, domain)
		if err != nil {
			return reregBadInput, err
		}
		q.PDHandle = p.number
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	lkey, rkey, err := m.c.file.ReregMR(q)
	if err != nil {
		return reregFailed, err
	}
	m.lkey, m.rkey = lkey, rkey
	if flags&reregTranslation != 0 {
		m.addr, m.length = addr, length
	}
	if flags&reregPD != 0 {
		m.pd = domain
	}
	return 0, nil
}

// AdviseMR advises the kernel on memory.
func (p *pd) AdviseMR(advice, flags uint32, sges []abi.SGE) error {
	return unsupported(p.c.file.AdviseMR(p.number, advice, flags, sges))
}

// DeregMR ends a memory region.
func (m *mr) DeregMR() error {
	if m.null {
		return nil
	}
	return m.c.destroyed(m.c.file.DeregMR(m.number))
}

// MR returns what is known of a memory region.
func (m *mr) MR() control.MR {
	m.mu.Lock()
	defer m.mu.Unlock()
	return control.MR{Addr: m.addr, Length: m.length, PD: m.pd, LKey: m.lkey, RKey: m.rkey, Number: m.number}
}
