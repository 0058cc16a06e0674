package uverbs

import (
	"structs"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// handleOnly is the struct of the commands that destroy an object without events.
type handleOnly struct {
	_      structs.HostLayout
	handle uint32
}

// destroy is struct ib_uverbs_destroy_cq, and those of QPs and SRQs.
type destroy struct {
	_        structs.HostLayout
	response uint64
	handle   uint32
	_        uint32
}

func (f *File) drop(c *command, handle uint32) error {
	q := &handleOnly{handle: handle}
	return f.do(c, request{in: Bytes(q)}, Handle(0, handle))
}

// events destroys an object, and returns how many async events the kernel has reported for it.
func (f *File) events(c *command, handle uint32) (uint32, error) {
	q, r := &destroy{handle: handle}, new(uint32)
	err := f.do(c, request{in: Bytes(q), out: Bytes(r)}, Handle(0, handle), Out(1, Bytes(r)))
	return *r, err
}

// AllocPD makes a protection domain and returns its number.
func (f *File) AllocPD(d Driver) (uint32, error) {
	q, r := new(responseOnly), new(uint32)
	err := f.do(&allocPD, request{Bytes(q), Bytes(r), d})
	return *r, err
}

// DeallocPD ends a protection domain.
func (f *File) DeallocPD(handle uint32) error { return f.drop(&deallocPD, handle) }

// Structs ib_uverbs_ah_attr and ib_uverbs_global_route are as those of libibverbs.
type (
	AHAttr      = abi.AHAttr
	GlobalRoute = abi.GlobalRoute
)

// CreateAH makes an address handle in the kernel, which resolves the address.
func (f *File) CreateAH(user uint64, pd uint32, a *AHAttr, d Driver) (uint32, error) {
	q := &struct {
		_              structs.HostLayout
		response, user uint64
		pd, _          uint32
		attr           AHAttr
	}{user: user, pd: pd, attr: *a}
	r := new(uint32)
	err := f.do(&createAH, request{Bytes(q), Bytes(r), d})
	return *r, err
}

// DestroyAH ends an address handle.
func (f *File) DestroyAH(handle uint32) error { return f.drop(&destroyAH, handle) }
