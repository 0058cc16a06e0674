package uverbs

import "github.com/pureverbs/pureverbs/internal/abi"

// RegMR registers memory.
func (f *File) RegMR(q *abi.UverbsRegMR) (*abi.UverbsMR, error) {
	r := new(abi.UverbsMR)
	return r, f.do(&regMR, request{in: Bytes(q), out: Bytes(r)}, New(0, &r.MRHandle), Handle(1, q.PDHandle),
		Uint64(3, q.HCAVA), Uint64(4, q.Start), Uint64(5, q.Length), Uint32(6, q.AccessFlags), Out(9, Bytes(&r.LKey)),
		Out(10, Bytes(&r.RKey)))
}

// ReregMR changes a registration and returns its keys.
func (f *File) ReregMR(q *abi.UverbsReregMR) (lkey, rkey uint32, err error) {
	r := new([2]uint32)
	err = f.do(&reregMR, request{in: Bytes(q), out: Bytes(r)})
	return r[0], r[1], err
}

// DeregMR ends a registration.
func (f *File) DeregMR(handle uint32) error { return f.drop(&deregMR, handle) }

// QueryMR returns the keys and the length of a registration of another process with the same context.
func (f *File) QueryMR(handle uint32) (*abi.UverbsMR, uint64, error) {
	r, length := &abi.UverbsMR{MRHandle: handle}, new(uint64)
	err := f.do(&queryMR, request{}, Handle(0, handle), Out(1, Bytes(&r.LKey)), Out(2, Bytes(&r.RKey)),
		Out(3, Bytes(length)))
	return r, *length, err
}

// AdviseMR advises the kernel on memory.
func (f *File) AdviseMR(pd, advice, flags uint32, list []abi.SGE) error {
	return f.do(&adviseMR, request{}, Handle(0, pd), Uint64(1, uint64(advice)), Uint32(2, flags), In(3, BytesOf(list)))
}

// RegDmabufMR registers a part of a dma-buf. args are the driver's.
func (f *File) RegDmabufMR(
	pd uint32, off, length, iova uint64, fd int, access uint32, args ...Arg,
) (*abi.UverbsMR, error) {
	r := new(abi.UverbsMR)
	return r, f.do(&regDmabufMR, request{}, append([]Arg{New(0, &r.MRHandle), Handle(1, pd), Uint64(2, off),
		Uint64(3, length), Uint64(4, iova), Uint32(5, uint32(fd)), Uint32(6, access), Out(7, Bytes(&r.LKey)),
		Out(8, Bytes(&r.RKey))}, args...)...)
}

// RegDMMR registers a part of device memory.
func (f *File) RegDMMR(pd, dm uint32, off, length uint64, access uint32) (*abi.UverbsMR, error) {
	r := new(abi.UverbsMR)
	return r, f.do(&regDMMR, request{}, New(0, &r.MRHandle), Uint64(1, off), Uint64(2, length), Handle(3, pd),
		Uint32(4, access), Handle(5, dm), Out(6, Bytes(&r.LKey)), Out(7, Bytes(&r.RKey)))
}

// AllocMW makes a memory window and returns its handle and its key.
func (f *File) AllocMW(pd uint32, typ uint8) (handle, rkey uint32, err error) {
	q, r := &abi.UverbsAllocMW{PDHandle: pd, MWType: typ}, new([2]uint32)
	err = f.do(&allocMW, request{in: Bytes(q), out: Bytes(r)})
	return r[0], r[1], err
}

// DeallocMW ends a memory window.
func (f *File) DeallocMW(handle uint32) error { return f.drop(&deallocMW, handle) }

// AllocDM allocates device memory. args are the driver's.
func (f *File) AllocDM(length uint64, align uint32, args ...Arg) (handle uint32, err error) {
	h := new(uint32)
	err = f.do(&allocDM, request{}, append([]Arg{New(0, h), Uint64(1, length), Uint32(2, align)}, args...)...)
	return *h, err
}

// FreeDM frees device memory.
func (f *File) FreeDM(handle uint32) error { return f.do(&freeDM, request{}, Handle(0, handle)) }
