package ibv

// PD is a protection domain: what may be used together.
//
// It belongs to its Context and is safe for concurrent use. Close fails while
// MRs, QPs, SRQs, AHs or parent domains of it are open.
//
// C: struct ibv_pd.
type PD struct {
	node
	ctx    *Context
	handle uintptr
	root   *PD           // itself, or what a parent domain was made from
	td     *ThreadDomain // of a parent domain; may be nil
}

// AllocPD makes a protection domain.
//
// C: ibv_alloc_pd(3).
func (c *Context) AllocPD() (*PD, error) {
	const op = "alloc pd"
	if err := c.enter(op); err != nil {
		return nil, err
	}
	defer c.leave()
	h, err := c.v.AllocPD(c.handle)
	if err != nil {
		return nil, &OpError{Op: op, Object: c.Name(), Err: err}
	}
	pd := &PD{ctx: c, handle: h}
	pd.root = pd
	pd.node.init("pd", c.Name(), &c.node)
	watch(pd, &pd.node)
	return pd, nil
}

// Context is the device that the PD belongs to.
func (pd *PD) Context() *Context { return pd.ctx }

// Close gives the PD back.
//
// C: ibv_dealloc_pd(3).
func (pd *PD) Close() error {
	return pd.node.close(func() error { return pd.ctx.v.DeallocPD(pd.handle) })
}
