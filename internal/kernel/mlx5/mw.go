package mlx5

// mw is a memory window.
type mw struct {
	object
	number, key uint32
}

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
	w.handle = v.table.add(w)
	return w.handle, nil
}

// DeallocMW ends a memory window.
func (v *Verbs) DeallocMW(_, h handle) error {
	w, err := get[mw](v, h)
	if err != nil {
		return err
	}
	if _, err := w.c.finish("dealloc_mw", w.c.file.DeallocMW(w.number)); err != nil {
		return err
	}
	v.table.remove(h)
	return nil
}

// MWKey returns the key of a memory window that is not bound. Posting changes it.
func (v *Verbs) MWKey(h handle) uint32 { return field(v, h, func(w *mw) uint32 { return w.key }) }
