//go:build linux

package hca

// AttrMask says which attributes of a QPAttr are given, with the kernel's bits (IB_QP_*).
type AttrMask uint32

// Attribute bits.
const (
	AttrState AttrMask = 1 << iota
	AttrCurState
	AttrSQDNotify
	AttrAccess
	AttrPKeyIndex
	AttrPort
	AttrQKey
	AttrAV
	AttrPathMTU
	AttrTimeout
	AttrRetryCnt
	AttrRNRRetry
	AttrRQPSN
	AttrMaxRdAtomic
	AttrAltPath
	AttrMinRNRTimer
	AttrSQPSN
	AttrMaxDestRdAtomic
	AttrPathMigState
	AttrCap
	AttrDestQPN
	_
	_
	_
	_
	AttrRateLimit // 1<<25
)

// AHAttr is an address.
type AHAttr struct {
	DGID         [16]byte
	FlowLabel    uint32
	SGIDIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	DLID         uint16
	SL           uint8
	SrcPathBits  uint8
	StaticRate   uint8
	Global       bool
	Port         uint8
	DMAC         [6]byte
}

// QPAttr is a QP's modifiable attributes. Units and encodings are those of the InfiniBand specification.
type QPAttr struct {
	CurState                                 QPState
	RateLimit                                uint32 // not kept
	PathMTU, PathMigState                    uint8
	QKey, RQPSN, SQPSN, DestQPN              uint32
	Access                                   Access
	AH, AltAH                                AHAttr
	PKeyIndex, AltPKeyIndex                  uint16
	MaxRdAtomic, MaxDestRdAtomic             uint8
	MinRNRTimer, Timeout, RetryCnt, RNRRetry uint8
	Port, AltPort, AltTimeout                uint8
}

// EventType is an asynchronous event, with the kernel's numbers (IB_EVENT_*).
type EventType uint32

// Events.
const (
	EventCQErr EventType = iota
	EventQPFatal
	EventQPReqErr
	EventQPAccessErr
	EventCommEst
	EventSQDrained
	EventPathMig
	EventPathMigErr
	EventDeviceFatal
	EventPortActive
	EventPortErr
	EventLIDChange
	EventPKeyChange
	EventSMChange
	EventSRQErr
	EventSRQLimitReached
	EventQPLastWQEReached
	EventClientReregister
	EventGIDChange
	EventWQFatal
)
