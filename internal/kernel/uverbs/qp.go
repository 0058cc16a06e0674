package uverbs

import "structs"

// QPCap is struct ib_uverbs_qp_cap.
type QPCap struct {
	_                                                           structs.HostLayout
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInlineData uint32
}

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

// CreateQP makes a QP.
func (f *File) CreateQP(q *CreateQP, d Driver) (*QP, error) {
	const sigAll = 1 << 12 // C: IB_UVERBS_QP_CREATE_SQ_SIG_ALL
	r := new(QP)
	return r, f.do(&createQP, request{Bytes(q), Bytes(r), d}, New(0, &r.Handle), Handle(2, q.PD),
		If(q.IsSRQ != 0, Handle(3, q.SRQ)), Handle(4, q.SendCQ), Handle(5, q.RecvCQ), Uint64(7, q.User),
		In(8, Bytes(&q.Cap)), Uint64(9, uint64(q.Type)), If(q.SigAll != 0, Uint32(10, sigAll)), Out(13, Bytes(&r.Cap)),
		Out(14, Bytes(&r.Num)))
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
