package uverbs

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// CQIgnoreOverrun is a flag of CreateCQ. C: IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN
const CQIgnoreOverrun = 1 << 1

// CreateCQ makes a CQ. flags are those of enum ib_uverbs_ex_create_cq_flags.
func (f *File) CreateCQ(q *abi.UverbsCreateCQ, flags uint32, d Driver) (*abi.UverbsCQ, error) {
	x := new(abi.UverbsExCreateCQResp)
	r := &x.Base
	c, req := &createCQ, request{Bytes(q), Bytes(r), d}
	if flags != 0 {
		ex := &abi.UverbsExCreateCQ{UserHandle: q.UserHandle, CQE: q.CQE, CompVector: q.CompVector,
			CompChannel: q.CompChannel, Flags: flags}
		c, req = &createCQEx, request{Bytes(ex), Bytes(x), d}
	}
	err := f.do(c, req, New(0, &r.CQHandle), Uint32(1, q.CQE), Uint64(2, q.UserHandle),
		FD(3, int(q.CompChannel)), Uint32(4, q.CompVector), If(flags != 0, Uint32(5, flags)), Out(6, Bytes(&r.CQE)))
	if err != nil {
		return nil, err
	}
	if r.CQE < q.CQE {
		if _, _, err := f.DestroyCQ(r.CQHandle); err != nil {
			f.Doubt.Store(true)
		}
		return nil, Check(false, createCQ.name, "entries", uint64(r.CQE), fmt.Sprintf("at least %d", q.CQE))
	}
	return r, nil
}

// ResizeCQ makes a CQ continue in the ring that the driver's part names.
func (f *File) ResizeCQ(handle, cqe uint32, driver []byte) error {
	q, r := &abi.UverbsResizeCQ{CQHandle: handle, CQE: cqe}, new([2]uint32)
	if err := f.do(&resizeCQ, request{Bytes(q), Bytes(r), Driver{In: driver}}); err != nil {
		return err
	}
	return Check(r[0] == cqe, resizeCQ.name, "entries", uint64(r[0]), fmt.Sprint(cqe))
}

// ModerateCQ sets after how many completions, or how many microseconds, an armed CQ raises an event.
func (f *File) ModerateCQ(handle uint32, completions, usec uint16) error {
	const moderate = 1 << 0 // C: IB_CQ_MODERATE
	q := &abi.UverbsExModifyCQ{CQHandle: handle, AttrMask: moderate,
		Attr: abi.ModerateCQ{CQCount: completions, CQPeriod: usec}}
	return f.do(&modifyCQ, request{in: Bytes(q)})
}

// DestroyCQ ends a CQ. It returns how many events the kernel has reported for it.
func (f *File) DestroyCQ(handle uint32) (completions, async uint32, err error) {
	q, r := &abi.UverbsDestroy{Handle: handle}, new([2]uint32)
	err = f.do(&destroyCQ, request{in: Bytes(q), out: Bytes(r)}, Handle(0, handle), Out(1, Bytes(r)))
	return r[0], r[1], err
}

// XRC names the domain and the CQ of an SRQ of an XRC domain.
type XRC struct{ XRCD, CQ uint32 }

// CreateSRQ makes a shared receive queue. x is nil for one that has no XRC domain.
func (f *File) CreateSRQ(q *abi.UverbsCreateSRQ, x *XRC, d Driver) (*abi.UverbsSRQ, error) {
	const basic, xrc = 0, 1 // C: enum ib_uverbs_srq_type
	r := new(abi.UverbsSRQ)
	args := []Arg{New(0, &r.SRQHandle), Handle(1, q.PDHandle), Uint64(4, q.UserHandle), Uint32(5, q.MaxWR),
		Uint32(6, q.MaxSGE), Uint32(7, q.SRQLimit), Out(11, Bytes(&r.MaxWR)), Out(12, Bytes(&r.MaxSGE))}
	if x == nil {
		return r, f.do(&createSRQ, request{Bytes(q), Bytes(r), d}, append(args, Uint64(9, basic))...)
	}
	w := &abi.UverbsCreateXSRQ{UserHandle: q.UserHandle, SRQType: xrc, PDHandle: q.PDHandle, MaxWR: q.MaxWR,
		MaxSGE: q.MaxSGE, SRQLimit: q.SRQLimit, XRCDHandle: x.XRCD, CQHandle: x.CQ}
	return r, f.do(&createXSRQ, request{Bytes(w), Bytes(r), d}, append(args, Uint64(9, xrc), Handle(2, x.XRCD),
		Handle(3, x.CQ), Out(13, Bytes(&r.SRQN)))...)
}

// ModifySRQ changes the parts of an SRQ that mask names.
func (f *File) ModifySRQ(handle, mask, maxWR, limit uint32) error {
	q := &[4]uint32{handle, mask, maxWR, limit}
	return f.do(&modifySRQ, request{in: Bytes(q)})
}

// QuerySRQ returns the attributes of an SRQ.
func (f *File) QuerySRQ(handle uint32) (maxWR, maxSGE, limit uint32, err error) {
	q, r := &abi.UverbsDestroy{Handle: handle}, new([4]uint32)
	err = f.do(&querySRQ, request{in: Bytes(q), out: Bytes(r)})
	return r[0], r[1], r[2], err
}

// DestroySRQ ends an SRQ. It returns how many async events the kernel has reported for it.
func (f *File) DestroySRQ(handle uint32) (events uint32, err error) {
	return f.events(&destroySRQ, handle)
}
