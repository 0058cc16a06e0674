package ibv

import (
	"errors"
	"fmt"
	"syscall"
)

// ThreadDomain is a promise that only one goroutine at a time uses the objects made on it. The library then takes no
// lock, and on mlx5 gives the domain its own doorbell register. That makes BlueFlame possible: a short work request
// that is posted alone travels with its doorbell.
//
// It takes effect through a PD made by AllocParentDomain. All QPs on that PD share the
// register, so the promise covers them together: the caller must order any use of two of them,
// including Close. The usual way is one ThreadDomain for each goroutine that posts; the number
// of registers is limited. A QP may move to another goroutine the way data does, over a channel
// or under a mutex. Only the race detector checks the promise.
//
// It belongs to its Device. Close fails while a parent domain uses it.
//
// C: struct ibv_td.
type ThreadDomain struct {
	object
	nextHalf uintptr // offset of the BlueFlame half for the next doorbell; written by whichever QP of the domain rings
}

// AllocThreadDomain makes a thread domain. If the provider does not support it, the error is
// ErrNotSupported. SingleThreaded, an option of CQs, QPs and SRQs, avoids this module's locks
// on any provider.
//
// C: ibv_alloc_td(3).
func (d *Device) AllocThreadDomain() (*ThreadDomain, error) {
	td := &ThreadDomain{object: object{dev: d}}
	return create("alloc thread domain", d.Name(), "thread domain", td, &td.node, func() (err error) {
		td.handle, err = d.v.AllocTD(d.handle)
		return d.explainDomain("a thread domain", err)
	}, &d.node)
}

// Device returns the device that the domain belongs to.
func (td *ThreadDomain) Device() *Device { return td.dev }

// Close deallocates the domain and its register.
//
// C: ibv_dealloc_td(3).
func (td *ThreadDomain) Close() error { return td.destroy(td.dev.v.DeallocTD) }

// explainDomain returns what a thread or parent domain needs, and what to use instead.
func (d *Device) explainDomain(what string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.ENOMEM) {
		return fmt.Errorf("the device has no doorbell register left: share a ThreadDomain, or use the option "+
			"SingleThreaded: %w", err)
	}
	return d.explainLack(err, what, "libibverbs of rdma-core v17 or later", "a provider with support for it, such as "+
		"mlx5", "; use the option SingleThreaded instead")
}
