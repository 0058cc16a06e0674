package abi

import (
	"math/bits"
	"structs"
)

// MLX5DVObj is struct mlx5dv_obj (infiniband/mlx5dv.h, rdma-core v65): the objects to view, and
// where to store the views.
type MLX5DVObj struct {
	_    structs.HostLayout
	QP   MLX5DVInOut
	CQ   MLX5DVInOut
	SRQ  MLX5DVInOut
	RWQ  MLX5DVInOut
	DM   MLX5DVInOut
	AH   MLX5DVInOut
	PD   MLX5DVInOut
	DevX MLX5DVInOut
}

// MLX5DVInOut is a member of MLX5DVObj: the verbs object, and the mlx5dv struct to fill.
type MLX5DVInOut struct {
	_   structs.HostLayout
	In  uintptr
	Out uintptr
}

// MLX5DVQP is struct mlx5dv_qp (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVQP struct {
	_     structs.HostLayout
	DBRec uintptr
	SQ    struct {
		_      structs.HostLayout
		Buf    uintptr
		WQECnt uint32
		Stride uint32
	}
	RQ struct {
		_      structs.HostLayout
		Buf    uintptr
		WQECnt uint32
		Stride uint32
	}
	BF struct {
		_    structs.HostLayout
		Reg  uintptr
		Size uint32
		_    [4]byte
	}
	CompMask      uint64
	UARMmapOffset int64
	TIRN          uint32
	TISN          uint32
	RQN           uint32
	SQN           uint32
	TIRICMAddr    uint64
}

// MLX5DVCQ is struct mlx5dv_cq (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVCQ struct {
	_        structs.HostLayout
	Buf      uintptr
	DBRec    uintptr
	CQECnt   uint32
	CQESize  uint32
	CQUAR    uintptr
	CQN      uint32
	_        [4]byte
	CompMask uint64
}

// MLX5DVSRQ is struct mlx5dv_srq (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVSRQ struct {
	_        structs.HostLayout
	Buf      uintptr
	DBRec    uintptr
	Stride   uint32
	Head     uint32
	Tail     uint32
	_        [4]byte
	CompMask uint64
	SRQN     uint32
	_        [4]byte
}

// MLX5DVAH is struct mlx5dv_ah (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVAH struct {
	_        structs.HostLayout
	AV       uintptr
	CompMask uint64
}

// MLX5DVPD is struct mlx5dv_pd (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVPD struct {
	_        structs.HostLayout
	PDN      uint32
	_        [4]byte
	CompMask uint64
}

// MLX5DVCQECompCaps is struct mlx5dv_cqe_comp_caps (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVCQECompCaps struct {
	_               structs.HostLayout
	MaxNum          uint32
	SupportedFormat uint32
}

// MLX5DVSWParsingCaps is struct mlx5dv_sw_parsing_caps (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVSWParsingCaps struct {
	_                 structs.HostLayout
	SWParsingOffloads uint32
	SupportedQPTs     uint32
}

// MLX5DVStridingRQCaps is struct mlx5dv_striding_rq_caps (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVStridingRQCaps struct {
	_                            structs.HostLayout
	MinSingleStrideLogNumOfBytes uint32
	MaxSingleStrideLogNumOfBytes uint32
	MinSingleWQELogNumOfStrides  uint32
	MaxSingleWQELogNumOfStrides  uint32
	SupportedQPTs                uint32
}

// MLX5DVSigCaps is struct mlx5dv_sig_caps (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVSigCaps struct {
	_         structs.HostLayout
	BlockSize uint64
	BlockProt uint32
	T10DIFBG  uint16
	CRCType   uint16
}

// MLX5DVDCIStreamsCaps is struct mlx5dv_dci_streams_caps (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVDCIStreamsCaps struct {
	_                  structs.HostLayout
	MaxLogNumConcurent uint8
	MaxLogNumErrored   uint8
}

// MLX5DVCryptoCaps is struct mlx5dv_crypto_caps (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVCryptoCaps struct {
	_                   structs.HostLayout
	FailedSelftests     uint16
	CryptoEngines       uint8
	WrappedImportMethod uint8
	LogMaxNumDEKs       uint8
	_                   [3]byte
	Flags               uint32
}

// MLX5IBUAPIReg is struct mlx5_ib_uapi_reg (rdma/mlx5_user_ioctl_verbs.h, rdma-core v65).
type MLX5IBUAPIReg struct {
	_     structs.HostLayout
	Value uint32
	Mask  uint32
}

// MLX5DVOOORecvWRsCaps is struct mlx5dv_ooo_recv_wrs_caps (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVOOORecvWRsCaps struct {
	_      structs.HostLayout
	MaxRC  uint32
	MaxXRC uint32
	MaxDCT uint32
	MaxUD  uint32
	MaxUC  uint32
}

// MLX5DVContext is struct mlx5dv_context (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVContext struct {
	_                      structs.HostLayout
	Version                uint8
	_                      [7]byte
	Flags                  uint64
	CompMask               uint64
	CQECompCaps            MLX5DVCQECompCaps
	SWParsingCaps          MLX5DVSWParsingCaps
	StridingRQCaps         MLX5DVStridingRQCaps
	TunnelOffloadsCaps     uint32
	MaxDynamicBFRegs       uint32
	_                      [4]byte
	MaxClockInfoUpdateNsec uint64
	FlowActionFlags        uint32
	DCODPCaps              uint32
	HCACoreClock           uintptr
	NumLAGPorts            uint8
	_                      [7]byte
	SigCaps                MLX5DVSigCaps
	DCIStreamsCaps         MLX5DVDCIStreamsCaps
	_                      [6]byte
	MaxWRMemcpyLength      uint64
	CryptoCaps             MLX5DVCryptoCaps
	_                      [4]byte
	MaxDCRdAtom            uint64
	MaxDCInitRdAtom        uint64
	RegC0                  MLX5IBUAPIReg
	OOORecvWRsCaps         MLX5DVOOORecvWRsCaps
	_                      [4]byte
}

// MLX5DVCQInitAttr is struct mlx5dv_cq_init_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVCQInitAttr struct {
	_                structs.HostLayout
	CompMask         uint64
	CQECompResFormat uint8
	_                [3]byte
	Flags            uint32
	CQESize          uint16
	_                [6]byte
}

// MLX5DVDCInitAttr is struct mlx5dv_dc_init_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVDCInitAttr struct {
	_            structs.HostLayout
	DCType       uint32
	_            [4]byte
	DCTAccessKey uint64 // a union with struct mlx5dv_dci_streams: see SetStreams
}

// SetStreams sets the streams of a DCI: log2 of how many there are, and of how many may be in error.
func (a *MLX5DVDCInitAttr) SetStreams(log, logErrored uint8) {
	a.DCTAccessKey = uint64(log) | uint64(logErrored)<<8
}

// MLX5DVQPInitAttr is struct mlx5dv_qp_init_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVQPInitAttr struct {
	_            structs.HostLayout
	CompMask     uint64
	CreateFlags  uint32
	_            [4]byte
	DCInitAttr   MLX5DVDCInitAttr
	SendOpsFlags uint64
}

// MLX5DVClockInfo is struct mlx5dv_clock_info (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVClockInfo struct {
	_          structs.HostLayout
	Nsec       uint64
	LastCycles uint64
	Frac       uint64
	Mult       uint32
	Shift      uint32
	Mask       uint64
}

// Nanoseconds converts a timestamp, which must be at most half the clock's range before or after LastCycles, to
// nanoseconds since 1970. C's product overflows some seconds after the kernel's last update; this one does not.
//
// C: mlx5dv_ts_to_ns(3), an inline function.
func (c *MLX5DVClockInfo) Nanoseconds(ts uint64) uint64 {
	if after := (ts - c.LastCycles) & c.Mask; after <= c.Mask/2 {
		hi, lo := bits.Mul64(after, uint64(c.Mult))
		lo, carry := bits.Add64(lo, c.Frac, 0)
		return c.Nsec + shiftRight(hi+carry, lo, c.Shift)
	}
	hi, lo := bits.Mul64((c.LastCycles-ts)&c.Mask, uint64(c.Mult))
	lo, borrow := bits.Sub64(lo, c.Frac, 0)
	return c.Nsec - shiftRight(hi-borrow, lo, c.Shift)
}

// shiftRight returns the lower half of hi<<64 + lo, shifted.
func shiftRight(hi, lo uint64, n uint32) uint64 { return lo>>n | hi<<(64-n) }

// MLX5DVQPEx is struct mlx5dv_qp_ex (infiniband/mlx5dv.h, rdma-core v65). That of a library before v37 ends before
// WRSetDCAddrStream.
type MLX5DVQPEx struct {
	_                          structs.HostLayout
	CompMask                   uint64
	WRSetDCAddr                uintptr // void (*)(qp, struct ibv_ah *, uint32_t dctn, uint64_t key)
	WRMRInterleaved            uintptr
	WRMRList                   uintptr
	WRMkeyConfigure            uintptr
	WRSetMkeyAccessFlags       uintptr
	WRSetMkeyLayoutList        uintptr
	WRSetMkeyLayoutInterleaved uintptr
	WRSetMkeySigBlock          uintptr
	WRRawWQE                   uintptr
	WRSetDCAddrStream          uintptr // void (*)(qp, struct ibv_ah *, uint32_t dctn, uint64_t key, uint16_t stream)
	WRMemcpy                   uintptr
	WRSetMkeyCrypto            uintptr
}

// MLX5DVRWQ is struct mlx5dv_rwq (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVRWQ struct {
	_        structs.HostLayout
	Buf      uintptr
	DBRec    uintptr
	WQECnt   uint32
	Stride   uint32
	CompMask uint64
}

// MLX5DVStridingRQInitAttr is struct mlx5dv_striding_rq_init_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVStridingRQInitAttr struct {
	_                         structs.HostLayout
	SingleStrideLogNumOfBytes uint32
	SingleWQELogNumOfStrides  uint32
	TwoByteShiftEn            uint8
	_                         [3]byte
}

// MLX5DVWQInitAttr is struct mlx5dv_wq_init_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVWQInitAttr struct {
	_               structs.HostLayout
	CompMask        uint64
	StridingRQAttrs MLX5DVStridingRQInitAttr
	_               [4]byte
}

// MLX5DVSchedAttr is struct mlx5dv_sched_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVSchedAttr struct {
	_        structs.HostLayout
	Parent   uintptr
	Flags    uint32
	BWShare  uint32
	MaxAvgBW uint32
	_        [4]byte
	CompMask uint64
}

// MLX5DVPP is struct mlx5dv_pp (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVPP struct {
	_     structs.HostLayout
	Index uint16
}
