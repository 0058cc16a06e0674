package ibv

import "github.com/pureverbs/pureverbs/internal/life"

// PD is a protection domain: only objects of the same domain may be used together.
//
// It belongs to its Device and is safe for concurrent use. Close fails while
// MRs, QPs, SRQs, AHs or parent domains of it are open.
//
// C: struct ibv_pd.
type PD struct {
	node
	dev    *Device
	handle uintptr
	root   *PD           // the PD itself; for a parent domain the PD it was made from
	td     *ThreadDomain // of a parent domain; may be nil

	rung [mostRegisters]uintptr // parent domains of onRegister, by register; guarded by registers.mu

	release func(pd uintptr) error // what Close calls; nil is DeallocPD
}

// AllocPD makes a protection domain.
//
// C: ibv_alloc_pd(3).
func (d *Device) AllocPD() (*PD, error) {
	const op = "alloc pd"
	if err := d.enter(op); err != nil {
		return nil, err
	}
	defer d.leave()
	h, err := d.v.AllocPD(d.handle)
	if err != nil {
		return nil, &OpError{Op: op, Object: d.Name(), Err: d.usedUp(err, "PDs", d.attr.MaxPD)}
	}
	return d.newPD(h, nil), nil
}

// newPD returns the PD of a C object.
//
// Preconditions: the caller holds the Device entered.
func (d *Device) newPD(h uintptr, release func(pd uintptr) error) *PD {
	pd := &PD{dev: d, handle: h, release: release}
	pd.root = pd
	pd.node.initNumbered("pd", d.Name(), &d.node)
	life.Watch(pd, &pd.life)
	return pd
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
