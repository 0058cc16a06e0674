package uverbs

import (
	"fmt"
	"structs"
)

// CreateCQ is struct ib_uverbs_create_cq. Channel is a descriptor, -1 for none.
type CreateCQ struct {
	_              structs.HostLayout
	response, User uint64
	CQE, Vector    uint32
	Channel        int32
	_              uint32
}

// CQ is struct ib_uverbs_create_cq_resp.
type CQ struct {
	_           structs.HostLayout
	Handle, CQE uint32
}

// CQIgnoreOverrun is a flag of CreateCQ. C: IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN
const CQIgnoreOverrun = 1 << 1

// CreateCQ makes a CQ. flags are those of enum ib_uverbs_ex_create_cq_flags.
func (f *File) CreateCQ(q *CreateCQ, flags uint32, d Driver) (*CQ, error) {
	r := &struct {
		CQ
		mask, length uint32
	}{}
	c, req := &createCQ, request{Bytes(q), Bytes(&r.CQ), d}
	if flags != 0 {
		x := &struct {
			_           structs.HostLayout
			user        uint64
			cqe, vector uint32
			channel     int32
			mask        uint32
			flags, _    uint32
		}{user: q.User, cqe: q.CQE, vector: q.Vector, channel: q.Channel, flags: flags}
		c, req = &createCQEx, request{Bytes(x), Bytes(r), d}
	}
	err := f.do(c, req, New(0, &r.Handle), Uint32(1, q.CQE), Uint64(2, q.User),
		FD(3, int(q.Channel)), Uint32(4, q.Vector), If(flags != 0, Uint32(5, flags)), Out(6, Bytes(&r.CQE)))
	if err != nil {
		return nil, err
	}
	if r.CQE < q.CQE {
		if _, _, err := f.DestroyCQ(r.Handle); err != nil {
			f.Doubt.Store(true)
		}
		return nil, check(false, createCQ.name, "entries", uint64(r.CQE), fmt.Sprintf("at least %d", q.CQE))
	}
	return &r.CQ, nil
}

// MLX5Ring is the driver's part of ResizeCQ on mlx5. C: struct mlx5_ib_resize_cq of rdma/mlx5-abi.h.
type MLX5Ring struct {
	_         structs.HostLayout
	Buf       uint64
	EntrySize uint16
	_         uint16
	_         uint32
}

// ResizeCQ makes a CQ continue in the ring that the driver's part names.
func (f *File) ResizeCQ(handle, cqe uint32, driver []byte) error {
	q := &struct {
		_           structs.HostLayout
		response    uint64
		handle, cqe uint32
	}{handle: handle, cqe: cqe}
	r := new([2]uint32)
	if err := f.do(&resizeCQ, request{Bytes(q), Bytes(r), Driver{In: driver}}); err != nil {
		return err
	}
	return check(r[0] == cqe, resizeCQ.name, "entries", uint64(r[0]), fmt.Sprint(cqe))
}

// ModerateCQ sets after how many completions, or how many microseconds, an armed CQ raises an event.
func (f *File) ModerateCQ(handle uint32, completions, usec uint16) error {
	const moderate = 1 << 0 // C: IB_CQ_MODERATE
	q := &struct {
		_                 structs.HostLayout
		handle, mask      uint32
		completions, usec uint16
		_                 uint32
	}{handle: handle, mask: moderate, completions: completions, usec: usec}
	return f.do(&modifyCQ, request{in: Bytes(q)})
}

// DestroyCQ ends a CQ. It returns how many events the kernel has reported for it.
func (f *File) DestroyCQ(handle uint32) (completions, async uint32, err error) {
	q, r := &destroy{handle: handle}, new([2]uint32)
	err = f.do(&destroyCQ, request{in: Bytes(q), out: Bytes(r)}, Handle(0, handle), Out(1, Bytes(r)))
	return r[0], r[1], err
}

// CreateSRQ is struct ib_uverbs_create_srq.
type CreateSRQ struct {
	_                        structs.HostLayout
	response, User           uint64
	PD, MaxWR, MaxSGE, Limit uint32
}

// SRQ is struct ib_uverbs_create_srq_resp.
type SRQ struct {
	_                          structs.HostLayout
	Handle, MaxWR, MaxSGE, Num uint32
}

// XRC names the domain and the CQ of an SRQ of an XRC domain.
type XRC struct{ XRCD, CQ uint32 }

// CreateSRQ makes a shared receive queue. x is nil for one that has no XRC domain.
func (f *File) CreateSRQ(q *CreateSRQ, x *XRC, d Driver) (*SRQ, error) {
	const basic, xrc = 0, 1 // C: enum ib_uverbs_srq_type
	r := new(SRQ)
	args := []Arg{New(0, &r.Handle), Handle(1, q.PD), Uint64(4, q.User), Uint32(5, q.MaxWR), Uint32(6, q.MaxSGE),
		Uint32(7, q.Limit), Out(11, Bytes(&r.MaxWR)), Out(12, Bytes(&r.MaxSGE))}
	if x == nil {
		return r, f.do(&createSRQ, request{Bytes(q), Bytes(r), d}, append(args, Uint64(9, basic))...)
	}
	w := &struct {
		_                                structs.HostLayout
		response, user                   uint64
		typ, pd, maxWR, maxSGE, limit, _ uint32
		xrcd, cq                         uint32
	}{user: q.User, typ: xrc, pd: q.PD, maxWR: q.MaxWR, maxSGE: q.MaxSGE, limit: q.Limit, xrcd: x.XRCD, cq: x.CQ}
	return r, f.do(&createXSRQ, request{Bytes(w), Bytes(r), d}, append(args, Uint64(9, xrc), Handle(2, x.XRCD),
		Handle(3, x.CQ), Out(13, Bytes(&r.Num)))...)
}

// ModifySRQ changes the parts of an SRQ that mask names.
func (f *File) ModifySRQ(handle, mask, maxWR, limit uint32) error {
	q := &[4]uint32{handle, mask, maxWR, limit}
	return f.do(&modifySRQ, request{in: Bytes(q)})
}

// QuerySRQ returns the attributes of an SRQ.
func (f *File) QuerySRQ(handle uint32) (maxWR, maxSGE, limit uint32, err error) {
	q, r := &destroy{handle: handle}, new([4]uint32)
	err = f.do(&querySRQ, request{in: Bytes(q), out: Bytes(r)})
	return r[0], r[1], r[2], err
}

// DestroySRQ ends an SRQ. It returns how many async events the kernel has reported for it.
func (f *File) DestroySRQ(handle uint32) (events uint32, err error) {
	return f.events(&destroySRQ, handle)
}
