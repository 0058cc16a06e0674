//go:build linux

package uapi

// The commands of both interfaces. C: struct ib_uverbs_*, named alike.

// HandleOnly is the request of the commands that name one object and nothing else (dealloc_pd, dereg_mr, close_xrcd,
// …).
type HandleOnly struct{ Handle uint32 }

// Destroy is the request of destroy_cq, destroy_qp and destroy_srq.
type Destroy struct {
	Response uint64
	Handle   uint32
	_        uint32
}

// GetContextResp answers get_context.
type GetContextResp struct{ AsyncFd, NumCompVectors uint32 }

// QueryDeviceResp answers query_device.
type QueryDeviceResp struct {
	FwVer                                                         uint64
	NodeGUID, SysImageGUID                                        [8]byte
	MaxMRSize, PageSizeCap                                        uint64
	VendorID, VendorPartID, HwVer, MaxQP, MaxQpWR, DeviceCapFlags uint32
	MaxSGE, MaxSGERd, MaxCQ, MaxCQE, MaxMR, MaxPD                 uint32
	MaxQPRdAtom, MaxEERdAtom, MaxResRdAtom, MaxQPInitRdAtom       uint32
	MaxEEInitRdAtom, AtomicCap, MaxEE, MaxRDD, MaxMW              uint32
	MaxRawIpv6QP, MaxRawEthyQP, MaxMcastGrp, MaxMcastQPAttach     uint32
	MaxTotalMcastQPAttach, MaxAH, MaxFMR, MaxMapPerFMR            uint32
	MaxSRQ, MaxSrqWR, MaxSrqSGE                                   uint32
	MaxPkeys                                                      uint16
	LocalCaAckDelay, PhysPortCnt                                  uint8
	_                                                             [4]byte
}

// ExQueryDevice is the extended query_device.
type ExQueryDevice struct{ CompMask, Reserved uint32 }

// ExQueryDeviceResp answers the extended query_device.
type ExQueryDeviceResp struct {
	Base                                  QueryDeviceResp
	CompMask, ResponseLength              uint32
	OdpCaps                               [3]uint64
	TimestampMask                         uint64
	HcaCoreClock                          uint64 // kHz
	DeviceCapFlagsEx                      uint64
	RssCaps                               [4]uint32
	MaxWqTypeRq, RawPacketCaps            uint32
	TmCaps                                [6]uint32
	CQModerationCount, CQModerationPeriod uint16 `c:"cq_moderation_caps.max_"`
	_                                     uint32
	MaxDmSize                             uint64
	XrcOdpCaps, _                         uint32
}

// QueryPort asks for a port.
type QueryPort struct {
	Response uint64
	PortNum  uint8
	_        [7]byte
}

// QueryPortResp answers query_port.
type QueryPortResp struct {
	PortCapFlags, MaxMsgSz               uint32
	BadPkeyCntr, QkeyViolCntr, GIDTblLen uint32
	PkeyTblLen, LID, SmLID               uint16
	State, MaxMTU, ActiveMTU, LMC        uint8
	MaxVlNum, SmSl, SubnetTimeout        uint8
	InitTypeReply                        uint8
	ActiveWidth, ActiveSpeed             uint8
	PhysState, LinkLayer, Flags          uint8
	_                                    uint8
}

// QueryPortRespEx answers the ioctl's query_port; kernels since 6.19 tell the speed in it too.
type QueryPortRespEx struct {
	LegacyResp    QueryPortResp
	PortCapFlags2 uint16
	_             [2]byte
	ActiveSpeedEx uint32 `c:"-"` // newer headers only: reserved before
}

// OpenXRCD opens an XRC domain.
type OpenXRCD struct {
	Response uint64
	Fd       int32
	Oflags   uint32
}

// RegMR registers memory.
type RegMR struct {
	Response, Start, Length, HcaVa uint64
	PDHandle, AccessFlags          uint32
}

// MRResp answers reg_mr.
type MRResp struct{ MRHandle, Lkey, Rkey uint32 }

// ReregMR changes a registration.
type ReregMR struct {
	Response             uint64
	MRHandle, Flags      uint32
	Start, Length, HcaVa uint64
	PDHandle             uint32
	AccessFlags          uint32
}

// ReregMRResp answers rereg_mr.
type ReregMRResp struct{ Lkey, Rkey uint32 }

// AllocMW makes a memory window.
type AllocMW struct {
	Response uint64
	PDHandle uint32
	MwType   uint8
	_        [3]byte
}

// AllocMWResp answers alloc_mw.
type AllocMWResp struct{ MwHandle, Rkey uint32 }

// ExCreateCQ is the extended create_cq. The older one is its first 20 bytes behind a response pointer.
type ExCreateCQ struct {
	UserHandle      uint64
	CQE, CompVector uint32
	CompChannel     int32
	CompMask, Flags uint32
	Reserved        uint32
}

// CreateCQResp answers create_cq.
type CreateCQResp struct{ CQHandle, CQE uint32 }

// ExCreateCQResp answers the extended create_cq.
type ExCreateCQResp struct {
	Base                     CreateCQResp
	CompMask, ResponseLength uint32
}

// ResizeCQ changes a completion queue's size.
type ResizeCQ struct {
	Response      uint64
	CQHandle, CQE uint32
}

// ResizeCQResp answers resize_cq.
type ResizeCQResp struct{ CQE, Reserved uint32 }

// ExModifyCQ sets moderation.
type ExModifyCQ struct {
	CQHandle, AttrMask uint32
	CQCount, CQPeriod  uint16 `c:"attr."`
	Reserved           uint32
}

// DestroyCQResp answers destroy_cq.
type DestroyCQResp struct{ CompEventsReported, AsyncEventsReported uint32 }

// EventsResp answers destroy_qp and destroy_srq.
type EventsResp struct{ EventsReported uint32 }

// GlobalRoute is a GRH.
type GlobalRoute struct {
	DGID                              [16]byte
	FlowLabel                         uint32
	SGIDIndex, HopLimit, TrafficClass uint8
	_                                 uint8
}

// AHAttr is an address.
type AHAttr struct {
	GRH                                   GlobalRoute
	DLID                                  uint16
	SL, SrcPathBits, StaticRate, IsGlobal uint8
	PortNum                               uint8
	_                                     uint8
}

// QPCap is the capacity of a QP.
type QPCap struct{ MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInlineData uint32 }

// ExCreateQP is the extended create_qp. The older one is its first 48 bytes behind a response pointer.
type ExCreateQP struct {
	UserHandle                                                  uint64
	PDHandle, SendCQHandle, RecvCQHandle, SRQHandle             uint32
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInlineData uint32
	SqSigAll, QPType, IsSRQ                                     uint8
	Reserved                                                    uint8
	CompMask, CreateFlags, RwqIndTblHandle, SourceQPN           uint32
}

// OpenQP opens a shared XRC receive QP.
type OpenQP struct {
	Response, UserHandle uint64
	PDHandle, QPN        uint32
	QPType               uint8
	_                    [7]byte
}

// CreateQPResp answers create_qp and open_qp.
type CreateQPResp struct {
	QPHandle, QPN                                               uint32
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInlineData uint32
	Reserved                                                    uint32
}

// ExCreateQPResp answers the extended create_qp.
type ExCreateQPResp struct {
	Base                     CreateQPResp
	CompMask, ResponseLength uint32
}

// QPDest is an address within modify_qp and query_qp.
type QPDest struct {
	DGID                                       [16]byte
	FlowLabel                                  uint32
	DLID                                       uint16
	_                                          uint16
	SGIDIndex, HopLimit, TrafficClass, SL      uint8
	SrcPathBits, StaticRate, IsGlobal, PortNum uint8
}

// QueryQP asks for a QP's attributes.
type QueryQP struct {
	Response           uint64
	QPHandle, AttrMask uint32
}

// QueryQPResp answers query_qp.
type QueryQPResp struct {
	Dest, AltDest                                               QPDest
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInlineData uint32
	Qkey, RqPSN, SqPSN, DestQPNum, QPAccessFlags                uint32
	PkeyIndex, AltPkeyIndex                                     uint16
	QPState, CurQPState, PathMTU, PathMigState, SqDraining      uint8
	MaxRdAtomic, MaxDestRdAtomic, MinRnrTimer, PortNum, Timeout uint8
	RetryCnt, RnrRetry, AltPortNum, AltTimeout, SqSigAll        uint8
	_                                                           [5]byte
}

// ModifyQP changes a QP's attributes.
type ModifyQP struct {
	Dest, AltDest                                                QPDest
	QPHandle, AttrMask, Qkey, RqPSN, SqPSN, DestQPNum            uint32
	QPAccessFlags                                                uint32
	PkeyIndex, AltPkeyIndex                                      uint16
	QPState, CurQPState, PathMTU, PathMigState, EnSqdAsyncNotify uint8
	MaxRdAtomic, MaxDestRdAtomic, MinRnrTimer, PortNum, Timeout  uint8
	RetryCnt, RnrRetry, AltPortNum, AltTimeout                   uint8
	_                                                            [2]byte
}

// ExModifyQP is the extended modify_qp.
type ExModifyQP struct {
	Base                ModifyQP
	RateLimit, Reserved uint32
}

// ExResp is the answer of extended commands that have nothing else to tell.
type ExResp struct{ CompMask, ResponseLength uint32 }

// CreateAH makes an address handle.
type CreateAH struct {
	Response, UserHandle uint64
	PDHandle             uint32
	_                    uint32
	Attr                 AHAttr
}

// Mcast attaches or detaches.
type Mcast struct {
	GID      [16]byte
	QPHandle uint32
	Mlid     uint16
	_        uint16
}

// CreateXSRQ makes an SRQ of a given type.
type CreateXSRQ struct {
	Response, UserHandle                                                         uint64
	SRQType, PDHandle, MaxWR, MaxSGE, SRQLimit, MaxNumTags, XRCDHandle, CQHandle uint32
}

// CreateSRQResp answers create_srq.
type CreateSRQResp struct{ SRQHandle, MaxWR, MaxSGE, SRQN uint32 }

// ModifySRQ changes an SRQ.
type ModifySRQ struct{ SRQHandle, AttrMask, MaxWR, SRQLimit uint32 }

// QuerySRQ asks for an SRQ.
type QuerySRQ struct {
	Response  uint64
	SRQHandle uint32
	_         uint32
}

// QuerySRQResp answers query_srq.
type QuerySRQResp struct{ MaxWR, MaxSGE, SRQLimit, Reserved uint32 }

// GIDEntry is one entry of the GID table.
type GIDEntry struct {
	GID                                       [16]byte
	GIDIndex, PortNum, GIDType, NetdevIfindex uint32
}

// SGE is an element of advise_mr's list.
type SGE struct {
	Addr         uint64
	Length, Lkey uint32
}
