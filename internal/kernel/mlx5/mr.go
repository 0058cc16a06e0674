package mlx5

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// mr is a memory region.
type mr struct {
	object
	pd     handle
	addr   uintptr
	length int
	keys   uverbs.MR
}

// RegMR registers memory.
func (v *Verbs) RegMR(h handle, addr uintptr, length int, access uint32) (handle, error) {
	return v.RegMRIOVA2(h, addr, length, uint64(addr), access)
}

// RegMRIOVA registers memory that has another address for the device.
func (v *Verbs) RegMRIOVA(h handle, addr uintptr, length int, iova uint64, access uint32) (handle, error) {
	return v.RegMRIOVA2(h, addr, length, iova, access)
}

// RegMRIOVA2 is RegMRIOVA. A kernel that does not know optional access flags is not given any.
func (v *Verbs) RegMRIOVA2(h handle, addr uintptr, length int, iova uint64, access uint32) (handle, error) {
	p, err := get[pd](v, h)
	if err != nil {
		return 0, err
	}
	if length < 0 {
		return 0, syscall.EINVAL
	}
	if !p.c.core.OptionalMR {
		access &^= abi.IBV_ACCESS_OPTIONAL_RANGE
	}
	keys, err := p.c.file.RegMR(&uverbs.RegMR{Start: uint64(addr), Length: uint64(length), HCAVA: iova, PD: p.number,
		Access: access})
	if err != nil {
		return 0, err
	}
	m := &mr{object: object{c: p.c}, pd: h, addr: addr, length: length, keys: *keys}
	m.handle = v.table.add(m)
	return m.handle, nil
}

// HasRegMRIOVA2 returns true.
func (v *Verbs) HasRegMRIOVA2() bool { return true }

// DeregMR ends a memory region.
func (v *Verbs) DeregMR(h handle) error {
	m, err := get[mr](v, h)
	if err != nil {
		return err
	}
	if _, err := m.c.finish("dereg_mr", m.c.file.DeregMR(m.keys.Handle)); err != nil {
		return err
	}
	v.table.remove(h)
	return nil
}

// MR returns what is known of a memory region.
func (v *Verbs) MR(h handle) control.MR {
	return field(v, h, func(m *mr) control.MR {
		return control.MR{Addr: m.addr, Length: m.length, PD: m.pd, LKey: m.keys.LKey, RKey: m.keys.RKey,
			Number: m.keys.Handle}
	})
}
