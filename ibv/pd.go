package ibv

// PD is a protection domain: only objects of the same domain may be used together.
//
// It belongs to its Device and is safe for concurrent use. Close fails while
// MRs, QPs, SRQs, AHs or parent domains of it are open.
//
// C: struct ibv_pd.
type PD struct {
	object
	root *PD           // the PD itself; for a parent domain the PD it was made from
	td   *ThreadDomain // of a parent domain; may be nil

	rung [mostRegisters]uintptr // parent domains of onRegister, by register; guarded by registers.mu

	release func(pd uintptr) error // what Close calls; nil is DeallocPD
}

// AllocPD makes a protection domain.
//
// C: ibv_alloc_pd(3).
func (d *Device) AllocPD() (*PD, error) {
	return d.openPD("alloc pd", nil, func() (uintptr, error) {
		h, err := d.v.AllocPD(d.handle)
		return h, d.usedUp(err, "PDs", d.attr.MaxPD)
	})
}

// openPD returns a PD with C's object, which get returns.
func (d *Device) openPD(op string, release func(pd uintptr) error, get func() (uintptr, error)) (*PD, error) {
	pd := &PD{object: object{dev: d}, release: release}
	pd.root = pd
	return create(op, d.Name(), "pd", pd, &pd.node, func() (err error) {
		pd.handle, err = get()
		return err
	}, &d.node)
}

// Device returns the device that the PD belongs to.
func (pd *PD) Device() *Device { return pd.dev }

// Close deallocates the PD.
//
// C: ibv_dealloc_pd(3).
func (pd *PD) Close() error {
	return pd.node.close(func() error {
		if err := pd.leaveRegisters(); err != nil {
			return err
		}
		if pd.release != nil {
			return pd.release(pd.handle)
		}
		return pd.dev.v.DeallocPD(pd.handle)
	})
}
