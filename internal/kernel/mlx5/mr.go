package mlx5

import (
	"math"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// addMR puts a memory region into the table.
func (v *Verbs) addMR(p *pd, addr uintptr, length int, k *uverbs.MR) handle {
	m := &mr{object: object{c: p.c}, number: k.Handle, pd: p.handle, addr: addr, length: length, lkey: k.LKey,
		rkey: k.RKey}
	m.handle = v.table.add(m)
	return m.handle
}

// RegMR registers memory.
func (v *Verbs) RegMR(h handle, addr uintptr, length int, access uint32) (handle, error) {
	return v.RegMRIOVA2(h, addr, length, uint64(addr), access)
}

// RegMRIOVA registers memory that has another address for the device.
func (v *Verbs) RegMRIOVA(h handle, addr uintptr, length int, iova uint64, access uint32) (handle, error) {
	return v.RegMRIOVA2(h, addr, length, iova, access)
}

// RegMRIOVA2 is RegMRIOVA.
func (v *Verbs) RegMRIOVA2(h handle, addr uintptr, length int, iova uint64, access uint32) (handle, error) {
	p, err := get[pd](v, h)
	if err != nil {
		return 0, err
	}
	if length < 0 && (addr != 0 || length != -1) { // the whole address space is 0 to the largest size_t
		return 0, syscall.EINVAL
	}
	k, err := p.c.file.RegMR(&uverbs.RegMR{Start: uint64(addr), Length: uint64(length), HCAVA: iova, PD: p.number,
		Access: p.c.access(access)})
	if err != nil {
		return 0, err
	}
	return v.addMR(p, addr, length, k), nil
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
func (v *Verbs) RegDmabufMR(h handle, off uint64, length int, iova uint64, fd int, access uint32) (handle, error) {
	return regDmabufMR(v, h, off, length, iova, fd, access)
}

func regDmabufMR(v *Verbs, h handle, off uint64, length int, iova uint64, fd int, access uint32,
	args ...uverbs.Arg) (handle, error) {
	p, err := get[pd](v, h)
	if err != nil {
		return 0, err
	}
	if length < 0 || fd < 0 || int64(fd) > math.MaxInt32 {
		return 0, syscall.EINVAL
	}
	k, err := p.c.file.RegDmabufMR(p.number, off, uint64(length), iova, fd, p.c.access(access), args...)
	if err != nil {
		return 0, unsupported(err)
	}
	return v.addMR(p, uintptr(off), length, k), nil
}

// unsupported returns EOPNOTSUPP for a method that the kernel lacks.
func unsupported(err error) error {
	if uverbs.Absent(err) {
		return syscall.EOPNOTSUPP
	}
	return err
}

// ImportMR returns a memory region of another process with the same context.
func (v *Verbs) ImportMR(h handle, number uint32) (handle, error) {
	p, err := get[pd](v, h)
	if err != nil {
		return 0, err
	}
	k, length, err := p.c.file.QueryMR(number)
	if err != nil {
		return 0, unsupported(err)
	}
	if length > math.MaxInt {
		return 0, &uverbs.ReplyError{Command: "query_mr", Field: "length", Got: length, Want: "less than 1<<63"}
	}
	return v.addMR(p, 0, int(length), k), nil
}

// UnimportMR forgets it.
func (v *Verbs) UnimportMR(h handle) error { return forget[mr](v, h) }

// AllocNullMR makes a memory region that swallows what is written to it, and reads as zeros.
func (v *Verbs) AllocNullMR(_, h handle) (handle, error) {
	p, err := get[pd](v, h)
	if err != nil {
		return 0, err
	}
	const hasKey = 1 << 1 // C: MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY
	if p.c.info.mask&hasKey == 0 {
		return 0, syscall.EOPNOTSUPP
	}
	m := &mr{object: object{c: p.c}, null: true, pd: h, length: -1, lkey: p.c.info.dumpFillKey}
	return v.table.add(m), nil
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
	q := &uverbs.ReregMR{Handle: m.number, Flags: flags, Access: access}
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
		q.PD = p.number
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
func (v *Verbs) AdviseMR(_, h handle, advice, flags uint32, sges []abi.SGE) error {
	p, err := get[pd](v, h)
	if err != nil {
		return err
	}
	list := make([]uverbs.SGE, len(sges))
	for i, s := range sges {
		list[i] = uverbs.SGE{Addr: s.Addr, Length: s.Length, LKey: s.LKey}
	}
	return unsupported(p.c.file.AdviseMR(p.number, advice, flags, list))
}

// DeregMR ends a memory region.
func (v *Verbs) DeregMR(h handle) error {
	return ends(v, h, func(m *mr) error {
		if m.null {
			return nil
		}
		return m.c.destroyed(m.c.file.DeregMR(m.number))
	})
}

// MR returns what is known of a memory region.
func (v *Verbs) MR(h handle) control.MR {
	return field(v, h, func(m *mr) control.MR {
		m.mu.Lock()
		defer m.mu.Unlock()
		return control.MR{Addr: m.addr, Length: m.length, PD: m.pd, LKey: m.lkey, RKey: m.rkey, Number: m.number}
	})
}
