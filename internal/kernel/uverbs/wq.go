package uverbs

import "structs"

// OpenXRCD opens an XRC domain: of a file, or of nobody else if fd is -1. It returns the domain's handle.
func (f *File) OpenXRCD(fd int32, flags uint32) (uint32, error) {
	q := &struct {
		_        structs.HostLayout
		response uint64
		fd       int32
		flags    uint32
	}{fd: fd, flags: flags}
	r := new(uint32)
	err := f.do(&openXRCD, request{in: Bytes(q), out: Bytes(r)})
	return *r, err
}

// CloseXRCD closes an XRC domain.
func (f *File) CloseXRCD(handle uint32) error { return f.drop(&closeXRCD, handle) }

// CreateWQ is struct ib_uverbs_ex_create_wq.
type CreateWQ struct {
	_             structs.HostLayout
	mask, Type    uint32
	User          uint64
	PD, CQ        uint32
	MaxWR, MaxSGE uint32
	Flags, _      uint32
}

// WQ is struct ib_uverbs_ex_create_wq_resp.
type WQ struct {
	_                          structs.HostLayout
	mask, length               uint32
	Handle, MaxWR, MaxSGE, Num uint32
}

// CreateWQ makes a receive queue without a QP.
func (f *File) CreateWQ(q *CreateWQ, d Driver) (*WQ, error) {
	r := new(WQ)
	return r, f.do(&createWQ, request{Bytes(q), Bytes(r), d}, New(0, &r.Handle), Handle(1, q.PD), Handle(2, q.CQ),
		Uint64(3, q.User), Uint64(4, uint64(q.Type)), Uint32(6, q.MaxWR), Uint32(7, q.MaxSGE),
		If(q.Flags != 0, Uint32(8, q.Flags)), Out(9, Bytes(&r.MaxWR)), Out(10, Bytes(&r.MaxSGE)),
		Out(11, Bytes(&r.Num)))
}

// ModifyWQ is struct ib_uverbs_ex_modify_wq.
type ModifyWQ struct {
	_                                               structs.HostLayout
	Mask, Handle, State, CurState, Flags, FlagsMask uint32
}

// ModifyWQ changes what Mask names.
func (f *File) ModifyWQ(q *ModifyWQ, driver []byte) error {
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
