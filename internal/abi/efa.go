package abi

import "structs"

// EFADVDeviceAttr is struct efadv_device_attr (infiniband/efadv.h, rdma-core v65). Libraries fill as much of it as they
// know.
type EFADVDeviceAttr struct {
	_               structs.HostLayout
	CompMask        uint64
	MaxSQWR         uint32
	MaxRQWR         uint32
	MaxSQSGE        uint16
	MaxRQSGE        uint16
	InlineBufSize   uint16
	InlineBufSizeEx uint16
	DeviceCaps      uint32
	MaxRDMASize     uint32
}

// EFADVAHAttr is struct efadv_ah_attr (infiniband/efadv.h, rdma-core v65).
type EFADVAHAttr struct {
	_        structs.HostLayout
	CompMask uint64
	AHN      uint16
	_        [6]byte
}

// EFADVSQDepthAttr is struct efadv_sq_depth_attr (infiniband/efadv.h, rdma-core v65).
type EFADVSQDepthAttr struct {
	_             structs.HostLayout
	CompMask      uint64
	Flags         uint32
	MaxSendSGE    uint32
	MaxRDMASGE    uint32
	MaxInlineData uint32
}

// EFADVRQDepthAttr is struct efadv_rq_depth_attr (infiniband/efadv.h, rdma-core v65).
type EFADVRQDepthAttr struct {
	_          structs.HostLayout
	CompMask   uint64
	MaxRecvSGE uint32
	_          [4]byte
}

// EFADVQPInitAttr is struct efadv_qp_init_attr (infiniband/efadv.h, rdma-core v65).
type EFADVQPInitAttr struct {
	_            structs.HostLayout
	CompMask     uint64
	DriverQPType uint32
	Flags        uint16
	SL           uint8
	_            [1]byte
	WRFlags      uint64
}

// EFADVWQAttr is struct efadv_wq_attr (infiniband/efadv.h, rdma-core v65).
type EFADVWQAttr struct {
	_          structs.HostLayout
	CompMask   uint64
	Buffer     uintptr
	EntrySize  uint32
	NumEntries uint32
	Doorbell   uintptr
	MaxBatch   uint32
	Caps       uint16
	_          [2]byte
}

// EFADVCQInitAttr is struct efadv_cq_init_attr (infiniband/efadv.h, rdma-core v65).
type EFADVCQInitAttr struct {
	_            structs.HostLayout
	CompMask     uint64
	WCFlags      uint64
	Flags        uint64
	ExtMemDmabuf struct {
		_      structs.HostLayout
		Buffer uintptr
		Length uint64
		Offset uint64
		FD     int32
		_      [4]byte
	}
}

// EFADVCQAttr is struct efadv_cq_attr (infiniband/efadv.h, rdma-core v65).
type EFADVCQAttr struct {
	_          structs.HostLayout
	CompMask   uint64
	Buffer     uintptr
	EntrySize  uint32
	NumEntries uint32
	Doorbell   uintptr
}

// EFADVCQ is struct efadv_cq (infiniband/efadv.h, rdma-core v65).
type EFADVCQ struct {
	_               structs.HostLayout
	CompMask        uint64
	WCReadSGID      uintptr // int (struct efadv_cq *, union ibv_gid *sgid)
	WCIsUnsolicited uintptr // bool (struct efadv_cq *)
}

// EFADVMRAttr is struct efadv_mr_attr (infiniband/efadv.h, rdma-core v65).
type EFADVMRAttr struct {
	_            structs.HostLayout
	CompMask     uint64
	ICIDValidity uint16
	RecvICID     uint16
	RDMAReadICID uint16
	RDMARecvICID uint16
}
