package abi

import "structs"

// QP is the start of struct ibv_qp (infiniband/verbs.h, rdma-core v65), up to its mutex. TailShift
// locates the rest.
type QP struct {
	_         structs.HostLayout
	Context   uintptr
	QPContext uintptr
	PD        uintptr
	SendCQ    uintptr
	RecvCQ    uintptr
	SRQ       uintptr
	Handle    uint32
	QPNum     uint32
	State     uint32
	QPType    uint32
}

// QPCap is struct ibv_qp_cap (infiniband/verbs.h, rdma-core v65).
type QPCap struct {
	_             structs.HostLayout
	MaxSendWR     uint32
	MaxRecvWR     uint32
	MaxSendSGE    uint32
	MaxRecvSGE    uint32
	MaxInlineData uint32
}

// QPInitAttr is struct ibv_qp_init_attr (infiniband/verbs.h, rdma-core v65).
type QPInitAttr struct {
	_         structs.HostLayout
	QPContext uintptr
	SendCQ    uintptr
	RecvCQ    uintptr
	SRQ       uintptr
	Cap       QPCap
	QPType    uint32
	SQSigAll  int32
	_         [4]byte
}

// RxHashConf is struct ibv_rx_hash_conf (infiniband/verbs.h, rdma-core v65).
type RxHashConf struct {
	_                structs.HostLayout
	RxHashFunction   uint8
	RxHashKeyLen     uint8
	_                [6]byte
	RxHashKey        uintptr
	RxHashFieldsMask uint64
}

// QPInitAttrEx is struct ibv_qp_init_attr_ex (infiniband/verbs.h, rdma-core v65).
type QPInitAttrEx struct {
	_            structs.HostLayout
	QPContext    uintptr
	SendCQ       uintptr
	RecvCQ       uintptr
	SRQ          uintptr
	Cap          QPCap
	QPType       uint32
	SQSigAll     int32
	CompMask     uint32
	PD           uintptr
	XRCD         uintptr
	CreateFlags  uint32
	MaxTSOHeader uint16
	_            [2]byte
	RwqIndTbl    uintptr
	RxHashConf   RxHashConf
	SourceQPN    uint32
	_            [4]byte
	SendOpsFlags uint64
}

// QPAttr is struct ibv_qp_attr (infiniband/verbs.h, rdma-core v65).
type QPAttr struct {
	_                structs.HostLayout
	QPState          uint32
	CurQPState       uint32
	PathMTU          uint32
	PathMigState     uint32
	QKey             uint32
	RQPSN            uint32
	SQPSN            uint32
	DestQPNum        uint32
	QPAccessFlags    uint32
	Cap              QPCap
	AHAttr           AHAttr
	AltAHAttr        AHAttr
	PKeyIndex        uint16
	AltPKeyIndex     uint16
	EnSqdAsyncNotify uint8
	SQDraining       uint8
	MaxRdAtomic      uint8
	MaxDestRdAtomic  uint8
	MinRNRTimer      uint8
	PortNum          uint8
	Timeout          uint8
	RetryCnt         uint8
	RNRRetry         uint8
	AltPortNum       uint8
	AltTimeout       uint8
	_                [1]byte
	RateLimit        uint32
	_                [4]byte
}

// QPRateLimitAttr is struct ibv_qp_rate_limit_attr (infiniband/verbs.h, rdma-core v65).
type QPRateLimitAttr struct {
	_            structs.HostLayout
	RateLimit    uint32
	MaxBurstSz   uint32
	TypicalPktSz uint16
	_            [2]byte
	CompMask     uint32
}

// ECE is struct ibv_ece (infiniband/verbs.h, rdma-core v65).
type ECE struct {
	_        structs.HostLayout
	VendorID uint32
	Options  uint32
	CompMask uint32
}
