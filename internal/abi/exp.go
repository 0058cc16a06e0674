package abi

import (
	"structs"

	"github.com/pureverbs/pureverbs/internal/cmem"
)

// The experimental verbs of MLNX_OFED 4.x (libibverbs 41mlnx1, infiniband/verbs_exp.h). All of them are inline
// functions over a table that is below struct verbs_context in memory, and that also grows at its start.

// Distances of functions below the end of struct verbs_context_exp.
const (
	distExpSize = 8

	DistExpCreateQP    = 16  // lib_exp_create_qp
	DistExpQueryDevice = 32  // lib_exp_query_device
	DistExpQueryDCT    = 48  // query_dct
	DistExpDestroyDCT  = 56  // destroy_dct
	DistExpCreateDCT   = 64  // create_dct
	DistExpModifyQP    = 152 // lib_exp_modify_qp
	DistExpPollCQ      = 200 // drv_exp_ibv_poll_cq
	DistExpCreateCQ    = 208 // exp_create_cq
	DistExpQueryValues = 216 // drv_exp_query_values
	DistExpPostSend    = 248 // drv_exp_post_send
)

// maxExpSize bounds what is taken for the size of the table: that of 4.9 has 664 bytes.
const maxExpSize = 4096

// ExpOp returns the experimental verb that is dist below the end of its table, of the ibv_context at ctx; 0 if the
// library has no such verb.
func ExpOp(ctx, dist uintptr) uintptr {
	if !Legacy(ctx) {
		return 0
	}
	shift, _ := TailShift(ctx)
	end := ctx + offABICompat + 8 + shift - ContextSize(ctx)
	if size := *cmem.At[uintptr](end - distExpSize); size < dist || size%8 != 0 || size > maxExpSize {
		return 0
	}
	return *cmem.At[uintptr](end - dist)
}

// ExpCQInitAttr is struct ibv_exp_cq_init_attr.
type ExpCQInitAttr struct {
	_               structs.HostLayout
	CompMask        uint32
	Flags           uint32
	ResDomain       uintptr
	PeerDirectAttrs uintptr
}

// ExpQPInitAttr is struct ibv_exp_qp_init_attr. Up to SQSigAll it is struct ibv_qp_init_attr.
type ExpQPInitAttr struct {
	_               structs.HostLayout
	QPContext       uintptr
	SendCQ          uintptr
	RecvCQ          uintptr
	SRQ             uintptr
	Cap             QPCap
	QPType          uint32
	SQSigAll        int32
	CompMask        uint32
	PD              uintptr
	XRCD            uintptr
	ExpCreateFlags  uint32
	MaxInlRecv      uint32
	QPG             [2]uint64
	MaxAtomicArg    uint32
	MaxInlSendKLMs  uint32
	ResDomain       uintptr
	RxHashConf      uintptr
	PortNum         uint8
	_               [7]byte
	PeerDirectAttrs uintptr
	MaxTSOHeader    uint16
	_               [2]byte
	AssociatedQPN   uint32
}

// ExpQPAttr is struct ibv_exp_qp_attr. Up to AltTimeout it is struct ibv_qp_attr.
type ExpQPAttr struct {
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
	DCTKey           uint64
	CompMask         uint32
	FlowEntropy      uint32
	RateLimit        uint32
	BurstInfo        [2]uint32
	_                [4]byte
}

// ExpDCTInitAttr is struct ibv_exp_dct_init_attr.
type ExpDCTInitAttr struct {
	_           structs.HostLayout
	PD          uintptr
	CQ          uintptr
	SRQ         uintptr
	DCKey       uint64
	Port        uint8
	_           [3]byte
	AccessFlags uint32
	MinRNRTimer uint8
	TClass      uint8
	_           [2]byte
	FlowLabel   uint32
	MTU         uint32
	PKeyIndex   uint8
	GIDIndex    uint8
	HopLimit    uint8
	_           [1]byte
	InlineSize  uint32
	CreateFlags uint32
	CompMask    uint32
	_           [4]byte
}

// ExpDCTAttr is struct ibv_exp_dct_attr.
type ExpDCTAttr struct {
	_             structs.HostLayout
	DCKey         uint64
	Port          uint8
	_             [3]byte
	AccessFlags   uint32
	MinRNRTimer   uint8
	TClass        uint8
	_             [2]byte
	FlowLabel     uint32
	MTU           uint32
	PKeyIndex     uint8
	GIDIndex      uint8
	HopLimit      uint8
	_             [1]byte
	KeyViolations uint32
	State         uint8
	_             [3]byte
	SRQ           uintptr
	CQ            uintptr
	PD            uintptr
	CompMask      uint32
	_             [4]byte
}

// ExpDCT is the start of struct ibv_exp_dct.
type ExpDCT struct {
	_       structs.HostLayout
	Context uintptr
	Handle  uint32
	DCTNum  uint32
	PD      uintptr
	SRQ     uintptr
	CQ      uintptr
}

// ExpSendWR is struct ibv_exp_send_wr. Wr has the words that those of SendWR have.
type ExpSendWR struct {
	_         structs.HostLayout
	WRID      uint64
	Next      uintptr
	SGList    uintptr
	NumSGE    int32
	ExpOpcode uint32
	_         [4]byte
	Ex        uint32 // immediate data, big-endian, or a key
	Wr        [4]uint64
	QPType    uint32 // the number of an XRC SRQ
	_         [4]byte
	Task      [4]uint64
	Op        [3]uint32
	_         [4]byte
	DC        struct {
		_            structs.HostLayout
		AH           uintptr
		DCTAccessKey uint64
		DCTNumber    uint32
		_            [4]byte
	}
	BindMW       [6]uint64
	ExpSendFlags uint64
	CompMask     uint32
	_            [4]byte
	ExtOp        struct {
		_             structs.HostLayout
		MaskedAtomics struct {
			_          structs.HostLayout
			LogArgSz   uint32
			_          [4]byte
			RemoteAddr uint64
			RKey       uint32
			_          [4]byte
			// Compare and swap: compare mask, compare, swap, swap mask. Fetch and add: add, boundary.
			WRData [4]uint64
		}
		_ [2]uint64
	}
}

// ExpWC is struct ibv_exp_wc.
type ExpWC struct {
	_            structs.HostLayout
	WRID         uint64
	Status       uint32
	ExpOpcode    uint32
	VendorErr    uint32
	ByteLen      uint32
	ImmData      uint32 // big-endian
	QPNum        uint32
	SrcQP        uint32
	_            [4]byte
	PKeyIndex    uint16
	SLID         uint16
	SL           uint8
	DLIDPathBits uint8
	_            [2]byte
	Timestamp    uint64
	QP           uintptr
	SRQ          uintptr
	DCT          uintptr
	ExpWCFlags   uint64
	TMInfo       [2]uint64
}

// ExpClockInfo is struct ibv_exp_clock_info.
type ExpClockInfo struct {
	_        structs.HostLayout
	Cycles   uint64
	Nsec     uint64
	Frac     uint64
	Mask     uint64
	Shift    uint32
	Mult     uint32
	CompMask uint32
	_        [4]byte
}

// ExpValues is struct ibv_exp_values.
type ExpValues struct {
	_         structs.HostLayout
	CompMask  uint32
	_         [4]byte
	HWClockNS uint64
	HWClock   uint64
	ClockInfo ExpClockInfo
}

// ExpDeviceAttr is struct ibv_exp_device_attr. Fields that are not used have no names.
type ExpDeviceAttr struct {
	_                 structs.HostLayout
	_                 [228]byte
	CompMask          uint32
	_                 [40]byte
	TimestampMask     uint64
	HCACoreClock      uint64
	ExpDeviceCapFlags uint64
	MaxDCReqRdAtom    int32
	MaxDCResRdAtom    int32
	_                 [8]byte
	ExtAtom           ExpExtAtomicsParams
	_                 [48]byte
	MaxDCT            int32
	_                 [68]byte
	MaskedAtomic      ExpMaskedAtomicParams
	_                 [104]byte
	CompMask2         uint64
	_                 [16]byte
}

// ExpExtAtomicsParams is struct ibv_exp_ext_atomics_params.
type ExpExtAtomicsParams struct {
	_                  structs.HostLayout
	LogAtomicArgSizes  uint64 // a set of the sizes themselves: 8 for atomics of 8 bytes
	MaxFABitBoundary   uint32
	LogMaxAtomicInline uint32
}

// ExpMaskedAtomicParams is struct ibv_exp_masked_atomic_params.
type ExpMaskedAtomicParams struct {
	_                                        structs.HostLayout
	MaxFABitBoundary                         uint32
	LogMaxAtomicInline                       uint32
	MaskedLogAtomicArgSizes                  uint64
	MaskedLogAtomicArgSizesNetworkEndianness uint64
}

// Constants of infiniband/verbs_exp.h.
const (
	IBV_EXP_QPT_DC_INI = 32

	IBV_EXP_CQ_TIMESTAMP       = 1 << 1
	IBV_EXP_CQ_INIT_ATTR_FLAGS = 1 << 0

	IBV_EXP_QP_INIT_ATTR_PD           = 1 << 0
	IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2
	IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG  = 1 << 5

	IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY = 1 << 8

	IBV_EXP_QP_DC_KEY = 1 << 54

	IBV_EXP_VALUES_HW_CLOCK_NS = 1 << 0
	IBV_EXP_VALUES_HW_CLOCK    = 1 << 1
	IBV_EXP_VALUES_CLOCK_INFO  = 1 << 2

	IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP   = 99
	IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD = 100

	IBV_EXP_SEND_EXT_ATOMIC_INLINE = 1 << 35

	IBV_EXP_WC_MASKED_COMP_SWAP = 9
	IBV_EXP_WC_MASKED_FETCH_ADD = 10
	IBV_EXP_WC_WITH_TIMESTAMP   = 1 << 38

	IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK = 1 << 1
	IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS       = 1 << 3
	IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS     = 1 << 8
	IBV_EXP_DEVICE_ATTR_MAX_DCT             = 1 << 11
	IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS      = 1 << 19

	IBV_EXP_DEVICE_DC_TRANSPORT       = 1 << 32
	IBV_EXP_DEVICE_EXT_ATOMICS        = 1 << 36
	IBV_EXP_DEVICE_EXT_MASKED_ATOMICS = 1 << 46

	IBV_EXP_DCT_STATE_ACTIVE = 0
)
