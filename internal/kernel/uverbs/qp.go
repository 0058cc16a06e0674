package uverbs

import (
	"structs"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// QPCap is struct ib_uverbs_qp_cap, which is as that of libibverbs.
type QPCap = abi.QPCap

// CreateQP is struct ib_uverbs_create_qp.
type CreateQP struct {
	_                       structs.HostLayout
	response, User          uint64
	PD, SendCQ, RecvCQ, SRQ uint32
	Cap                     QPCap
	SigAll, Type, IsSRQ, _  uint8
}

// QP is struct ib_uverbs_create_qp_resp.
type QP struct {
	_           structs.HostLayout
	Handle, Num uint32
	Cap         QPCap
	_           uint32
}

// QPOptions are those of create_qp that few QPs have.
type QPOptions struct {
	XRCD           *uint32 // in place of the PD
	Table          *uint32 // of WQs, in place of CQs
	NoSend, NoRecv bool    // there is no such CQ
	Flags          uint32  // C: enum ib_uverbs_qp_create_flags
}

// createQPExReq is struct ib_uverbs_ex_create_qp.
type createQPExReq struct {
	_                             structs.HostLayout
	user                          uint64
	pd, sendCQ, recvCQ, srq       uint32
	cap                           QPCap
	sigAll, typ, isSRQ, _         uint8
	mask, flags, table, sourceQPN uint32
}

// CreateQP makes a QP.
func (f *File) CreateQP(q *CreateQP, o QPOptions, d Driver) (*QP, error) {
	const sigAll = 1 << 12 // C: IB_UVERBS_QP_CREATE_SQ_SIG_ALL
	const withTable = 1    // C: IB_UVERBS_CREATE_QP_MASK_IND_TABLE
	value := func(p *uint32) uint32 {
		if p == nil {
			return 0
		}
		return *p
	}
	flags := o.Flags
	if q.SigAll != 0 {
		flags |= sigAll
	}
	r := &struct {
		QP
		mask, length uint32
	}{}
	args := []Arg{New(0, &r.Handle), If(o.XRCD != nil, Handle(1, value(o.XRCD))), If(o.XRCD == nil, Handle(2, q.PD)),
		If(q.IsSRQ != 0, Handle(3, q.SRQ)), If(!o.NoSend, Handle(4, q.SendCQ)), If(!o.NoRecv, Handle(5, q.RecvCQ)),
		If(o.Table != nil, Handle(6, value(o.Table))), Uint64(7, q.User), In(8, Bytes(&q.Cap)),
		Uint64(9, uint64(q.Type)), If(flags != 0, Uint32(10, flags)), Out(13, Bytes(&r.Cap)), Out(14, Bytes(&r.Num))}
	if o.XRCD != nil {
		q.PD = *o.XRCD // where a write has it
	}
	if o.Flags == 0 && o.Table == nil {
		return &r.QP, f.do(&createQP, request{Bytes(q), Bytes(&r.QP), d}, args...)
	}
	x := &createQPExReq{user: q.User, pd: q.PD, sendCQ: q.SendCQ, recvCQ: q.RecvCQ, srq: q.SRQ, cap: q.Cap,
		sigAll: q.SigAll, typ: q.Type, isSRQ: q.IsSRQ, flags: o.Flags, table: value(o.Table)}
	if o.Table != nil {
		x.mask = withTable
	}
	return &r.QP, f.do(&createQPEx, request{Bytes(x), Bytes(r), d}, args...)
}

// OpenQP returns a QP of an XRC domain that another process has made.
func (f *File) OpenQP(user uint64, xrcd, num uint32, typ uint8) (*QP, error) {
	q := &struct {
		_              structs.HostLayout
		response, user uint64
		xrcd, num      uint32
		typ            uint8
		_              [7]uint8
	}{user: user, xrcd: xrcd, num: num, typ: typ}
	r := new(QP)
	return r, f.do(&openQP, request{in: Bytes(q), out: Bytes(r)})
}

// QPDest is struct ib_uverbs_qp_dest.
type QPDest struct {
	_                                          structs.HostLayout
	DGID                                       [16]byte
	FlowLabel                                  uint32
	DLID                                       uint16
	_                                          uint16
	SGIDIndex, HopLimit, TrafficClass, SL      uint8
	SrcPathBits, StaticRate, IsGlobal, PortNum uint8
}

// ModifyQP is struct ib_uverbs_modify_qp.
type ModifyQP struct {
	_                                                           structs.HostLayout
	Dest, AltDest                                               QPDest
	Handle, Mask, QKey, RQPSN, SQPSN, DestQPN, Access           uint32
	PKeyIndex, AltPKeyIndex                                     uint16
	State, CurState, PathMTU, PathMigState, EnSQDAsyncNotify    uint8
	MaxRdAtomic, MaxDestRdAtomic, MinRNRTimer, PortNum, Timeout uint8
	RetryCnt, RNRRetry, AltPortNum, AltTimeout                  uint8
	_                                                           [2]uint8
}

// ModifyQP changes the attributes that Mask names.
func (f *File) ModifyQP(q *ModifyQP) error { return f.do(&modifyQP, request{in: Bytes(q)}) }

// ModifyQPEx is ModifyQP with a rate and a driver's part.
func (f *File) ModifyQPEx(q *ModifyQP, rate uint32, d Driver) error {
	x := &struct {
		ModifyQP
		rate, _ uint32
	}{ModifyQP: *q, rate: rate}
	r := new([2]uint32)
	return f.do(&modifyQPEx, request{Bytes(x), Bytes(r), d})
}

// QPAttr is struct ib_uverbs_query_qp_resp.
type QPAttr struct {
	_                                                           structs.HostLayout
	Dest, AltDest                                               QPDest
	Cap                                                         QPCap
	QKey, RQPSN, SQPSN, DestQPN, Access                         uint32
	PKeyIndex, AltPKeyIndex                                     uint16
	State, CurState, PathMTU, PathMigState, SQDraining          uint8
	MaxRdAtomic, MaxDestRdAtomic, MinRNRTimer, PortNum, Timeout uint8
	RetryCnt, RNRRetry, AltPortNum, AltTimeout, SigAll          uint8
	_                                                           [5]uint8
}

// QueryQP returns the attributes of a QP.
func (f *File) QueryQP(handle, mask uint32) (*QPAttr, error) {
	q := &struct {
		_            structs.HostLayout
		response     uint64
		handle, mask uint32
	}{handle: handle, mask: mask}
	r := new(QPAttr)
	return r, f.do(&queryQP, request{in: Bytes(q), out: Bytes(r)})
}

// DestroyQP ends a QP. It returns how many async events the kernel has reported for it.
func (f *File) DestroyQP(handle uint32) (events uint32, err error) {
	return f.events(&destroyQP, handle)
}

// Mcast attaches a QP to a multicast group, or detaches it.
func (f *File) Mcast(attach bool, handle uint32, gid [16]byte, lid uint16) error {
	q := &struct {
		_      structs.HostLayout
		gid    [16]byte
		handle uint32
		lid, _ uint16
	}{gid: gid, handle: handle, lid: lid}
	c := &detachMcast
	if attach {
		c = &attachMcast
	}
	return f.do(c, request{in: Bytes(q)})
}
