package mlx5

// AllocMW makes a memory window.
func (v *Verbs) AllocMW(_, h handle, windowType uint32) (handle, error) {
	p, err := get[pd](v, h)
	if err != nil {
		return 0, err
	}
	w := &mw{object: object{c: p.c}}
	if w.number, w.key, err = p.c.file.AllocMW(p.number, uint8(windowType)); err != nil {
		return 0, err
	}
	return v.table.add(w), nil
}

// DeallocMW ends a memory window.
func (v *Verbs) DeallocMW(_, h handle) error {
	return ends(v, h, func(w *mw) error { return w.c.destroyed(w.c.file.DeallocMW(w.number)) })
}

// MWKey returns the key of a memory window that is not bound. Posting changes it.
func (v *Verbs) MWKey(h handle) uint32 { return field(v, h, func(w *mw) uint32 { return w.key }) }
