package ibv

import (
	"errors"
	"sync"
)

// registers are the doorbell registers of the queue pairs whose rings are not libmlx5's to post to, unless the caller
// gives them a ThreadDomain. libmlx5 copies WQEs to the registers that its own queue pairs share, under locks that
// nobody else can take, and a doorbell in the midst of a copy would tear the WQE (rdma-core v44.0,
// providers/mlx5/qp.c:774). These registers are of thread domains, so that libmlx5 gives them to no other queue pair.
// Doorbells of 8 bytes need no lock between each other.
type registers struct {
	mu   sync.Mutex
	tds  []uintptr // the thread domains
	next int       // which of them comes next, when there are mostRegisters or the device has no more

	// Without thread domains, queue pairs get the shared registers, and must all be posted to in the same way.
	none         error // why there are none
	byGo, byLibs int   // the queue pairs that have shared registers, by how they are posted to
}

// mostRegisters is the number of registers that libmlx5 has for queue pairs without a thread domain.
const mostRegisters = 16

// pick returns the index of the thread domain for the next queue pair.
// Preconditions: r.mu is held.
func (r *registers) pick(alloc func() (uintptr, error)) (int, error) {
	n := len(r.tds)
	if n < mostRegisters {
		switch td, err := alloc(); {
		case err == nil:
			r.tds = append(r.tds, td)
			return n, nil
		case n == 0:
			return 0, err
		}
	}
	i := r.next % n
	r.next++
	return i, nil
}

// share counts a queue pair that gets a shared register, unless it must not. leave takes the counter.
// Preconditions: r.mu is held.
func (r *registers) share(byGo bool) (*int, error) {
	mine, other := &r.byGo, &r.byLibs
	if !byGo {
		mine, other = other, mine
	}
	if r.none != nil && *other > 0 {
		return nil, &UnsupportedError{Feature: "queue pairs of DataPathOps and of other data paths on one Device",
			Need: "CQs of one data path, or the device opened once more for the others",
			Have: "no doorbell register for each kind: " + r.none.Error()}
	}
	*mine++
	return mine, nil
}

// leave no longer counts a queue pair that has been destroyed, or was not created. shared is nil if it was not counted.
func (r *registers) leave(shared *int) {
	if shared != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		*shared--
	}
}

// pdFor returns the C object of the PD with which a QP is created, and what share has returned.
func (pd *PD) pdFor(t QPType, path DataPath) (domain uintptr, shared *int, err error) {
	if pd.td != nil || t == DCT || shutUpBF() {
		return pd.handle, nil, nil
	}
	d := pd.dev
	r := &d.direct.registers
	r.mu.Lock()
	defer r.mu.Unlock()
	if path == DataPathOps {
		shared, err = r.share(false)
		return pd.handle, shared, err
	}
	if domain, err = pd.root.onRegister(r); err == nil {
		return domain, nil, nil
	}
	r.none = err
	shared, err = r.share(true)
	return pd.handle, shared, err
}

// onRegister returns a parent domain of pd with one of the thread domains.
// Preconditions: r.mu is held.
func (pd *PD) onRegister(r *registers) (uintptr, error) {
	d := pd.dev
	i, err := r.pick(func() (uintptr, error) { return d.v.AllocTD(d.handle) })
	if err != nil {
		return 0, err
	}
	if pd.rung[i] == 0 {
		h, err := d.v.AllocParentDomain(d.handle, pd.handle, r.tds[i])
		if err != nil {
			return 0, err
		}
		pd.rung[i] = h
	}
	return pd.rung[i], nil
}

// leaveRegisters ends the parent domains of onRegister.
func (pd *PD) leaveRegisters() error {
	r := &pd.dev.direct.registers
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for i, h := range pd.rung {
		if h != 0 {
			errs = append(errs, pd.dev.v.DeallocPD(h))
			pd.rung[i] = 0
		}
	}
	return errors.Join(errs...)
}

// freeRegisters ends the thread domains, before the context of the Device may be closed.
func (d *Device) freeRegisters() error {
	r := &d.direct.registers
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, td := range r.tds {
		errs = append(errs, d.v.DeallocTD(d.handle, td))
	}
	r.tds = nil
	return errors.Join(errs...)
}
