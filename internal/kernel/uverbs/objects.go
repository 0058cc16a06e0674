package uverbs

import "github.com/pureverbs/pureverbs/internal/abi"

// drop destroys an object without events.
func (f *File) drop(c *command, handle uint32) error {
	return f.do(c, request{in: Bytes(&handle)}, Handle(0, handle))
}

// events destroys an object, and returns how many async events the kernel has reported for it.
func (f *File) events(c *command, handle uint32) (uint32, error) {
	q, r := &abi.UverbsDestroy{Handle: handle}, new(uint32)
	err := f.do(c, request{in: Bytes(q), out: Bytes(r)}, Handle(0, handle), Out(1, Bytes(r)))
	return *r, err
}

// AllocPD makes a protection domain and returns its number.
func (f *File) AllocPD(d Driver) (uint32, error) {
	q, r := new(abi.UverbsGetContext), new(uint32)
	err := f.do(&allocPD, request{Bytes(q), Bytes(r), d})
	return *r, err
}

// DeallocPD ends a protection domain.
func (f *File) DeallocPD(handle uint32) error { return f.drop(&deallocPD, handle) }

// CreateAH makes an address handle in the kernel, which resolves the address.
func (f *File) CreateAH(user uint64, pd uint32, a *abi.AHAttr, d Driver) (uint32, error) {
	q, r := &abi.UverbsCreateAH{UserHandle: user, PDHandle: pd, Attr: *a}, new(uint32)
	err := f.do(&createAH, request{Bytes(q), Bytes(r), d})
	return *r, err
}

// DestroyAH ends an address handle.
func (f *File) DestroyAH(handle uint32) error { return f.drop(&destroyAH, handle) }
