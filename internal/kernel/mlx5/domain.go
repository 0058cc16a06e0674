package mlx5

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// AllocPD makes a protection domain.
func (c *context) AllocPD() (*pd, error) {
	resp := new(abi.MLX5IBNumberResp)
	n, err := c.file.AllocPD(uverbs.Driver{Out: uverbs.Bytes(resp)[:4]})
	if err != nil {
		return nil, err
	}
	return &pd{kernelObject: numbered(c, n), device: resp.Number}, nil
}

// DeallocPD ends a protection domain, or a parent domain.
func (p *pd) DeallocPD() error {
	if p.parent {
		return nil
	}
	return p.c.destroyed(p.c.file.DeallocPD(p.number))
}

// ImportPD returns a protection domain of another process with the same context.
func (c *context) ImportPD(number uint32) (*pd, error) {
	const kind, query, attr = 1, driverNamespace, driverNamespace // C: UVERBS_OBJECT_PD, MLX5_IB_METHOD_PD_QUERY
	pdn := new(uint32)
	err := c.file.Method("query_pd", kind, query, uverbs.Handle(attr, number), uverbs.Out(attr+1, uverbs.Bytes(pdn)))
	if err != nil {
		return nil, unsupported(err)
	}
	return &pd{kernelObject: numbered(c, number), device: *pdn}, nil
}

// UnimportPD forgets it.
func (p *pd) UnimportPD() error { return nil }

// PDNumber returns the kernel's handle of a PD.
func (p *pd) PDNumber() uint32 { return p.number }

// AllocTD makes a thread domain.
func (c *context) AllocTD() (*td, error) {
	r, err := c.bars.take(false)
	if err != nil {
		return nil, err
	}
	return &td{object{c: c}, r}, nil
}

// DeallocTD ends a thread domain.
func (t *td) DeallocTD() error {
	t.c.v.table.remove(t.handle)
	t.c.bars.give(t.reg)
	return nil
}

// AllocParentDomain makes a parent domain. t may be 0.
func (p *pd) AllocParentDomain(t handle) (*pd, error) {
	n := &pd{kernelObject: numbered(p.c, p.number), device: p.device, parent: true}
	if t != 0 {
		d, err := mine[td](p.c, t)
		if err != nil {
			return nil, err
		}
		n.reg = d.reg
	}
	return n, nil
}
