package mlx5

// AllocMW makes a memory window.
func (p *pd) AllocMW(windowType uint32) (*mw, error) {
	number, key, err := p.c.file.AllocMW(p.number, uint8(windowType))
	return &mw{object: object{c: p.c}, number: number, key: key}, err
}

// DeallocMW ends a memory window.
func (w *mw) DeallocMW() error { return w.c.destroyed(w.c.file.DeallocMW(w.number)) }

// MWKey returns the key of a memory window that is not bound. Posting changes it.
func (w *mw) MWKey() uint32 { return w.key }
