package uverbs

import "github.com/pureverbs/pureverbs/internal/abi"

// OpenXRCD opens an XRC domain: of a file, or of nobody else if fd is -1. It returns the domain's handle.
func (f *File) OpenXRCD(fd int32, flags uint32) (uint32, error) {
	q, r := &abi.UverbsOpenXRCD{FD: fd, OFlags: flags}, new(uint32)
	err := f.do(&openXRCD, request{in: Bytes(q), out: Bytes(r)})
	return *r, err
}

// CloseXRCD closes an XRC domain.
func (f *File) CloseXRCD(handle uint32) error { return f.drop(&closeXRCD, handle) }

// CreateWQ makes a receive queue without a QP.
func (f *File) CreateWQ(q *abi.UverbsExCreateWQ, d Driver) (*abi.UverbsWQ, error) {
	r := new(abi.UverbsWQ)
	return r, f.do(&createWQ, request{Bytes(q), Bytes(r), d}, New(0, &r.WQHandle), Handle(1, q.PDHandle),
		Handle(2, q.CQHandle), Uint64(3, q.UserHandle), Uint64(4, uint64(q.WQType)), Uint32(6, q.MaxWR),
		Uint32(7, q.MaxSGE), If(q.CreateFlags != 0, Uint32(8, q.CreateFlags)), Out(9, Bytes(&r.MaxWR)),
		Out(10, Bytes(&r.MaxSGE)), Out(11, Bytes(&r.Wqn)))
}

// ModifyWQ changes what AttrMask names.
func (f *File) ModifyWQ(q *abi.UverbsExModifyWQ, driver []byte) error {
	return f.do(&modifyWQ, request{in: Bytes(q), Driver: Driver{In: driver}})
}

// DestroyWQ ends a WQ. It returns how many async events the kernel has reported for it.
func (f *File) DestroyWQ(handle uint32) (events uint32, err error) {
	q, r := &[2]uint32{1: handle}, new([4]uint32)
	err = f.do(&destroyWQ, request{in: Bytes(q), out: Bytes(r)}, Handle(0, handle), Out(1, Bytes(&r[2])))
	return r[2], err
}

// CreateTable makes an indirection table of 1<<log WQs.
func (f *File) CreateTable(log uint32, wqs []uint32, d Driver) (uint32, error) {
	q := append([]uint32{0, log}, wqs...)
	if len(q)%2 != 0 {
		q = append(q, 0)
	}
	r := new([4]uint32)
	err := f.do(&createTable, request{BytesOf(q), Bytes(r), d})
	return r[2], err
}

// DestroyTable ends an indirection table.
func (f *File) DestroyTable(handle uint32) error {
	q := &[2]uint32{1: handle}
	return f.do(&destroyTable, request{in: Bytes(q)}, Handle(0, handle))
}
