package uverbs

import "github.com/pureverbs/pureverbs/internal/abi"

// QPOptions are those of create_qp that few QPs have.
type QPOptions struct {
	XRCD           *uint32 // in place of the PD
	Table          *uint32 // of WQs, in place of CQs
	NoSend, NoRecv bool    // there is no such CQ
	Flags          uint32  // C: enum ib_uverbs_qp_create_flags
}

// CreateQP makes a QP.
func (f *File) CreateQP(q *abi.UverbsCreateQP, o QPOptions, d Driver) (*abi.UverbsQP, error) {
	const sigAll = 1 << 12 // C: IB_UVERBS_QP_CREATE_SQ_SIG_ALL
	const withTable = 1    // C: IB_UVERBS_CREATE_QP_MASK_IND_TABLE
	value := func(p *uint32) uint32 {
		if p == nil {
			return 0
		}
		return *p
	}
	flags := o.Flags
	if q.SQSigAll != 0 {
		flags |= sigAll
	}
	x := new(abi.UverbsExCreateQPResp)
	r := &x.Base
	args := []Arg{New(0, &r.QPHandle), If(o.XRCD != nil, Handle(1, value(o.XRCD))),
		If(o.XRCD == nil, Handle(2, q.PDHandle)), If(q.IsSRQ != 0, Handle(3, q.SRQHandle)),
		If(!o.NoSend, Handle(4, q.SendCQHandle)), If(!o.NoRecv, Handle(5, q.RecvCQHandle)),
		If(o.Table != nil, Handle(6, value(o.Table))), Uint64(7, q.UserHandle), In(8, Bytes(&q.Cap)),
		Uint64(9, uint64(q.QPType)), If(flags != 0, Uint32(10, flags)), Out(13, Bytes(&r.Cap)), Out(14, Bytes(&r.QPN))}
	if o.XRCD != nil {
		q.PDHandle = *o.XRCD // where a write has it
	}
	if o.Flags == 0 && o.Table == nil {
		return r, f.do(&createQP, request{Bytes(q), Bytes(r), d}, args...)
	}
	ex := &abi.UverbsExCreateQP{UserHandle: q.UserHandle, PDHandle: q.PDHandle, SendCQHandle: q.SendCQHandle,
		RecvCQHandle: q.RecvCQHandle, SRQHandle: q.SRQHandle, Cap: q.Cap, SQSigAll: q.SQSigAll, QPType: q.QPType,
		IsSRQ: q.IsSRQ, CreateFlags: o.Flags, RWQIndTblHandle: value(o.Table)}
	if o.Table != nil {
		ex.CompMask = withTable
	}
	return r, f.do(&createQPEx, request{Bytes(ex), Bytes(x), d}, args...)
}

// OpenQP returns a QP of an XRC domain that another process has made.
func (f *File) OpenQP(user uint64, xrcd, num uint32, typ uint8) (*abi.UverbsQP, error) {
	q := &abi.UverbsOpenQP{UserHandle: user, PDHandle: xrcd, QPN: num, QPType: typ}
	r := new(abi.UverbsQP)
	return r, f.do(&openQP, request{in: Bytes(q), out: Bytes(r)})
}

// ModifyQP changes the attributes that AttrMask names.
func (f *File) ModifyQP(q *abi.UverbsModifyQP) error { return f.do(&modifyQP, request{in: Bytes(q)}) }

// ModifyQPEx is ModifyQP with a rate and a driver's part.
func (f *File) ModifyQPEx(q *abi.UverbsModifyQP, rate uint32, d Driver) error {
	x, r := &abi.UverbsExModifyQP{Base: *q, RateLimit: rate}, new([2]uint32)
	return f.do(&modifyQPEx, request{Bytes(x), Bytes(r), d})
}

// QueryQP returns the attributes of a QP.
func (f *File) QueryQP(handle, mask uint32) (*abi.UverbsQueryQPResp, error) {
	q, r := &abi.UverbsQueryQP{QPHandle: handle, AttrMask: mask}, new(abi.UverbsQueryQPResp)
	return r, f.do(&queryQP, request{in: Bytes(q), out: Bytes(r)})
}

// DestroyQP ends a QP. It returns how many async events the kernel has reported for it.
func (f *File) DestroyQP(handle uint32) (events uint32, err error) {
	return f.events(&destroyQP, handle)
}

// Mcast attaches a QP to a multicast group, or detaches it.
func (f *File) Mcast(attach bool, handle uint32, gid [16]byte, lid uint16) error {
	q, c := &abi.UverbsAttachMcast{GID: gid, QPHandle: handle, Mlid: lid}, &detachMcast
	if attach {
		c = &attachMcast
	}
	return f.do(c, request{in: Bytes(q)})
}
