package mlx5dv

import (
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// IsSupported reports whether this package works with a device: whether the libmlx5 of this process
// drives it. It returns an error if that is not known, because there is no libmlx5 or it is older
// than rdma-core v22, which this package does not support.
//
// C: mlx5dv_is_supported(3).
func IsSupported(dev *ibv.Device) (bool, error) {
	const op = "mlx5dv is supported"
	if dev == nil {
		return false, opError(op, "", &ibv.ArgError{Arg: "dev", Got: "nil", Want: "an open device"})
	}
	h, leave, err := verbs.Enter(dev, op)
	if err != nil {
		return false, err
	}
	defer leave()
	_, ok, err := supported(dev, h)
	if err != nil {
		return false, opError(op, dev.Name(), err)
	}
	return ok, nil
}

// DeviceAttr holds the mlx5 attributes of a device. A field whose feature is not in Has is zero
// because it is unknown.
//
// C: struct mlx5dv_context.
type DeviceAttr struct {
	Version uint8 // of the struct, 0
	Flags   DeviceFlags
	Has     Features

	CQECompression     CQECompression
	SWParsing          SWParsingCaps
	StridingRQ         StridingRQ
	TunnelOffloads     TunnelOffloads
	MaxDynamicBFRegs   uint32        // doorbell registers for thread domains, on older kernels
	MaxClockInfoUpdate time.Duration // a Clock older than this is no longer valid
	FlowActions        FlowActions
	DCODP              ibv.ODPOps // on-demand paging with DC
	HCACoreClock       uintptr    // address of the mapped device clock, a read-only big-endian uint64
	LAGPorts           uint8      // number of bonded ports
	Signature          Signature
	DCIStreams         DCIStreams
	MaxWRMemcpy        uint64 // bytes
	Crypto             Crypto
	MaxDCRdAtom        uint64 // outstanding reads and atomics that a DCT answers
	MaxDCInitRdAtom    uint64 // outstanding reads and atomics that a DCI sends
	RegC0              Register
	OOORecv            OOORecv
}

// CQECompression describes compressed completions. C: struct mlx5dv_cqe_comp_caps.
type CQECompression struct {
	MaxEntries uint32 // completions in one compressed completion
	Formats    CQEFormats
}

// SWParsingCaps describes the support for packets whose headers software describes.
// C: struct mlx5dv_sw_parsing_caps.
type SWParsingCaps struct {
	Offloads SWParsing
	QPTypes  ibv.QPTypes
}

// StridingRQ describes receives that hold several messages. All fields but the types are base-2
// logarithms. C: struct mlx5dv_striding_rq_caps.
type StridingRQ struct {
	MinLogStride  uint32 // bytes of a stride
	MaxLogStride  uint32
	MinLogStrides uint32 // strides per receive
	MaxLogStrides uint32
	QPTypes       ibv.QPTypes
}

// Signature describes block signatures. C: struct mlx5dv_sig_caps.
type Signature struct {
	BlockSizes  BlockSizes
	Protections SigProtections
	T10DIF      T10DIFGuards
	CRC         CRCs
}

// DCIStreams describes streams of a DCI. The fields are base-2 logarithms.
// C: struct mlx5dv_dci_streams_caps.
type DCIStreams struct {
	MaxLogConcurrent uint8
	MaxLogErrored    uint8
}

// Crypto describes encryption. C: struct mlx5dv_crypto_caps.
type Crypto struct {
	FailedSelftests uint16 // not 0 if a self-test failed
	Engines         CryptoEngines
	WrappedImport   CryptoImports
	LogMaxDEKs      uint8 // base-2 logarithm of the number of keys
	Flags           CryptoFlags
}

// Register is a value and the mask of its valid bits. C: struct mlx5_ib_uapi_reg.
type Register struct{ Value, Mask uint32 }

// OOORecv is the maximum number of receives of a QP with out-of-order data, by QP type.
// C: struct mlx5dv_ooo_recv_wrs_caps.
type OOORecv struct{ RC, XRC, DCT, UD, UC uint32 }

// QueryDevice returns the mlx5 attributes of a device.
//
// C: mlx5dv_query_device(3).
func QueryDevice(dev *ibv.Device) (*DeviceAttr, error) {
	const op = "mlx5dv query device"
	lib, h, leave, err := enter(dev, op)
	if err != nil {
		return nil, err
	}
	defer leave()
	attr, err := queryDevice(lib, h)
	if err != nil {
		return nil, opError(op, dev.Name(), err)
	}
	return attr, nil
}

// queryDevice is QueryDevice for a device that is entered.
func queryDevice(lib control.MLX5, handle uintptr) (*DeviceAttr, error) {
	c := &abi.MLX5DVContext{CompMask: uint64(allFeatures)}
	if err := lib.QueryDevice(handle, c); err != nil {
		return nil, err
	}
	return deviceAttr(c), nil
}

// allFeatures holds the features of rdma-core v65. Older libraries return those they know.
const allFeatures = HasOOORecv<<1 - 1

func deviceAttr(c *abi.MLX5DVContext) *DeviceAttr {
	return &DeviceAttr{
		Version: c.Version, Flags: DeviceFlags(c.Flags), Has: Features(c.CompMask),
		CQECompression: CQECompression{c.CQECompCaps.MaxNum, CQEFormats(c.CQECompCaps.SupportedFormat)},
		SWParsing: SWParsingCaps{SWParsing(c.SWParsingCaps.SWParsingOffloads),
			ibv.QPTypes(c.SWParsingCaps.SupportedQPTs)},
		StridingRQ: StridingRQ{
			MinLogStride:  c.StridingRQCaps.MinSingleStrideLogNumOfBytes,
			MaxLogStride:  c.StridingRQCaps.MaxSingleStrideLogNumOfBytes,
			MinLogStrides: c.StridingRQCaps.MinSingleWQELogNumOfStrides,
			MaxLogStrides: c.StridingRQCaps.MaxSingleWQELogNumOfStrides,
			QPTypes:       ibv.QPTypes(c.StridingRQCaps.SupportedQPTs),
		},
		TunnelOffloads:     TunnelOffloads(c.TunnelOffloadsCaps),
		MaxDynamicBFRegs:   c.MaxDynamicBFRegs,
		MaxClockInfoUpdate: time.Duration(c.MaxClockInfoUpdateNsec),
		FlowActions:        FlowActions(c.FlowActionFlags),
		DCODP:              ibv.ODPOps(c.DCODPCaps),
		HCACoreClock:       c.HCACoreClock,
		LAGPorts:           c.NumLAGPorts,
		Signature: Signature{
			BlockSizes: BlockSizes(c.SigCaps.BlockSize), Protections: SigProtections(c.SigCaps.BlockProt),
			T10DIF: T10DIFGuards(c.SigCaps.T10DIFBG), CRC: CRCs(c.SigCaps.CRCType),
		},
		DCIStreams:  DCIStreams{c.DCIStreamsCaps.MaxLogNumConcurent, c.DCIStreamsCaps.MaxLogNumErrored},
		MaxWRMemcpy: c.MaxWRMemcpyLength,
		Crypto: Crypto{
			FailedSelftests: c.CryptoCaps.FailedSelftests, Engines: CryptoEngines(c.CryptoCaps.CryptoEngines),
			WrappedImport: CryptoImports(c.CryptoCaps.WrappedImportMethod), LogMaxDEKs: c.CryptoCaps.LogMaxNumDEKs,
			Flags: CryptoFlags(c.CryptoCaps.Flags),
		},
		MaxDCRdAtom: c.MaxDCRdAtom, MaxDCInitRdAtom: c.MaxDCInitRdAtom,
		RegC0: Register{c.RegC0.Value, c.RegC0.Mask},
		OOORecv: OOORecv{RC: c.OOORecvWRsCaps.MaxRC, XRC: c.OOORecvWRsCaps.MaxXRC, DCT: c.OOORecvWRsCaps.MaxDCT,
			UD: c.OOORecvWRsCaps.MaxUD, UC: c.OOORecvWRsCaps.MaxUC},
	}
}
