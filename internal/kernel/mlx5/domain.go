package mlx5

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// AllocPD makes a protection domain.
func (v *Verbs) AllocPD(ctx handle) (handle, error) {
	c, err := get[context](v, ctx)
	if err != nil {
		return 0, err
	}
	resp := new(numberResp)
	n, err := c.file.AllocPD(uverbs.Driver{Out: uverbs.Bytes(resp)[:4]})
	if err != nil {
		return 0, err
	}
	p := &pd{object: object{c: c}, number: n, device: resp.number}
	return v.table.add(p), nil
}

// DeallocPD ends a protection domain, or a parent domain.
func (v *Verbs) DeallocPD(h handle) error {
	return ends(v, h, func(p *pd) error {
		if p.parent {
			return nil
		}
		return p.c.destroyed(p.c.file.DeallocPD(p.number))
	})
}

// ImportPD returns a protection domain of another process with the same context.
func (v *Verbs) ImportPD(ctx handle, number uint32) (handle, error) {
	c, err := get[context](v, ctx)
	if err != nil {
		return 0, err
	}
	const kind, query, attr = 1, driverNamespace, driverNamespace // C: UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY
	pdn := new(uint32)
	err = c.file.Method("query_pd", kind, query, uverbs.Handle(attr, number), uverbs.Out(attr+1, uverbs.Bytes(pdn)))
	if err != nil {
		return 0, unsupported(err)
	}
	p := &pd{object: object{c: c}, number: number, device: *pdn}
	return v.table.add(p), nil
}

// UnimportPD forgets it.
func (v *Verbs) UnimportPD(h handle) error { return forget[pd](v, h) }

// PDNumber returns the kernel's handle of a PD.
func (v *Verbs) PDNumber(h handle) uint32 {
	return field(v, h, func(p *pd) uint32 { return p.number })
}

// AllocTD makes a thread domain.
func (v *Verbs) AllocTD(ctx handle) (handle, error) {
	c, err := get[context](v, ctx)
	if err != nil {
		return 0, err
	}
	r, err := c.bars.take(false)
	if err != nil {
		return 0, err
	}
	t := &td{object{c: c}, r}
	return v.table.add(t), nil
}

// DeallocTD ends a thread domain.
func (v *Verbs) DeallocTD(_, h handle) error {
	t, err := get[td](v, h)
	if err != nil {
		return err
	}
	v.table.remove(h)
	t.c.bars.give(t.reg)
	return nil
}

// AllocParentDomain makes a parent domain. t may be 0.
func (v *Verbs) AllocParentDomain(ctx, h, t handle) (handle, error) {
	p, err := get[pd](v, h)
	if err != nil {
		return 0, err
	}
	n := &pd{object: object{c: p.c}, number: p.number, device: p.device, parent: true}
	if t != 0 {
		d, err := get[td](v, t)
		if err != nil {
			return 0, err
		}
		if d.c != p.c {
			return 0, syscall.EINVAL
		}
		n.reg = d.reg
	}
	return v.table.add(n), nil
}
