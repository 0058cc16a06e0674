package ibv

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// DeviceAttr are the identity and the limits of a device.
//
// C: struct ibv_device_attr.
type DeviceAttr struct {
	FirmwareVersion       string
	NodeGUID              GUID
	SysImageGUID          GUID   // the same for all devices of an adapter
	MaxMRSize             uint64 // bytes
	PageSizeCap           uint64 // page sizes, one bit for each: 4096 for 4 KiB
	VendorID              uint32 // IEEE's, 0x2c9 for mlx5
	VendorPartID          uint32 // the PCI device ID
	HWVersion             uint32
	MaxQP                 int
	MaxQPWR               int // of a send or receive queue; less with many SGEs or much inline data
	CapFlags              DeviceCapFlags
	MaxSGE                int // of a work request
	MaxSGERead            int // of a read; 0 if the device does not say
	MaxCQ                 int
	MaxCQE                int
	MaxMR                 int
	MaxPD                 int
	MaxQPRdAtom           int // reads and atomics that a QP can answer at the same time
	MaxResRdAtom          int // and that all QPs together can answer
	MaxQPInitRdAtom       int // reads and atomics that a QP can have outstanding
	AtomicCap             AtomicCap
	MaxMW                 int // 0 of devices that do not count them: CanBindMW has the CapFlags
	MaxRawEthyQP          int
	MaxMcastGroups        int
	MaxMcastQPAttach      int // QPs in one group
	MaxTotalMcastQPAttach int
	MaxAH                 int
	MaxSRQ                int
	MaxSRQWR              int
	MaxSRQSGE             int
	MaxPKeys              int           // of a port's table
	LocalCAAckDelay       TimeCode      // longest time from a packet to its acknowledgement
	PhysPortCnt           uint8         // ports are numbered from 1 to this
	Ex                    *DeviceAttrEx // nil if the library or the provider has no extended query
}

// DeviceAttrEx are the attributes of the extended query.
//
// C: struct ibv_device_attr_ex.
type DeviceAttrEx struct {
	ODP                     ODPCaps
	CompletionTimestampMask uint64 // valid bits of a completion's timestamp, 0 if there is none
	HCACoreClockKHz         uint64 // of the timestamps
	CapFlagsEx              DeviceCapFlags
	TSOMaxBytes             uint32 // of the data of one TSO, 0 if there is none
	TSOQPTypes              QPTypes
	RSS                     RSSCaps
	MaxWQTypeRQ             uint32 // receive WQs
	PacketPacing            PacketPacingCaps
	RawPacketCaps           RawPacketCaps
	TagMatching             TagMatchingCaps
	CQModerationMaxCount    uint16 // completions
	CQModerationMaxPeriod   uint16 // µs
	MaxDMSize               uint64 // bytes of device memory
	PCIAtomicFetchAdd       AtomicSizes
	PCIAtomicSwap           AtomicSizes
	PCIAtomicCompareSwap    AtomicSizes
	PhysPortCntEx           uint32 // ports, with those beyond 255; Go's calls take the first 255
}

// ODPCaps are the capabilities of on-demand paging. C: struct ibv_odp_caps.
type ODPCaps struct {
	General ODPFlags
	RC      ODPOps
	UC      ODPOps
	UD      ODPOps
	XRC     ODPOps
}

// RSSCaps are the capabilities of receive-side scaling. C: struct ibv_rss_caps.
type RSSCaps struct {
	QPTypes                 QPTypes
	MaxIndirectionTables    uint32
	MaxIndirectionTableSize uint32
	HashFields              HashFields
	HashFunctions           HashFuncs
}

// PacketPacingCaps are the capabilities of rate limiting, in kb/s. C: struct ibv_packet_pacing_caps.
type PacketPacingCaps struct {
	Min     uint32
	Max     uint32
	QPTypes QPTypes
}

// TagMatchingCaps are the capabilities of tag matching. C: struct ibv_tm_caps.
type TagMatchingCaps struct {
	MaxRendezvousHeader uint32
	MaxTags             uint32
	Flags               TagMatchingFlags
	MaxOps              uint32
	MaxSGE              uint32
}

// unsupported reports whether err means that the library or the kernel lacks a call. The kernel returns EPROTONOSUPPORT
// for a method that its driver does not have, and before Linux 4.14 ENOTTY for all of them.
func unsupported(err error) bool {
	return errors.Is(err, ErrNotSupported) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) ||
		errors.Is(err, syscall.EPROTONOSUPPORT) || errors.Is(err, syscall.ENOTTY)
}

func deviceAttrFromC(c *abi.DeviceAttr) *DeviceAttr {
	return &DeviceAttr{
		FirmwareVersion:       cString(c.FWVer[:]),
		NodeGUID:              GUID(c.NodeGUID.Get()),
		SysImageGUID:          GUID(c.SysImageGUID.Get()),
		MaxMRSize:             c.MaxMRSize,
		PageSizeCap:           c.PageSizeCap,
		VendorID:              c.VendorID,
		VendorPartID:          c.VendorPartID,
		HWVersion:             c.HWVer,
		MaxQP:                 int(c.MaxQP),
		MaxQPWR:               int(c.MaxQPWR),
		CapFlags:              DeviceCapFlags(c.DeviceCapFlags),
		MaxSGE:                int(c.MaxSGE),
		MaxSGERead:            int(c.MaxSGERd),
		MaxCQ:                 int(c.MaxCQ),
		MaxCQE:                int(c.MaxCQE),
		MaxMR:                 int(c.MaxMR),
		MaxPD:                 int(c.MaxPD),
		MaxQPRdAtom:           int(c.MaxQPRdAtom),
		MaxResRdAtom:          int(c.MaxResRdAtom),
		MaxQPInitRdAtom:       int(c.MaxQPInitRdAtom),
		AtomicCap:             AtomicCap(c.AtomicCap),
		MaxMW:                 int(c.MaxMW),
		MaxRawEthyQP:          int(c.MaxRawEthyQP),
		MaxMcastGroups:        int(c.MaxMcastGrp),
		MaxMcastQPAttach:      int(c.MaxMcastQPAttach),
		MaxTotalMcastQPAttach: int(c.MaxTotalMcastQPAttach),
		MaxAH:                 int(c.MaxAH),
		MaxSRQ:                int(c.MaxSRQ),
		MaxSRQWR:              int(c.MaxSRQWR),
		MaxSRQSGE:             int(c.MaxSRQSGE),
		MaxPKeys:              int(c.MaxPkeys),
		LocalCAAckDelay:       TimeCode(c.LocalCaAckDelay),
		PhysPortCnt:           c.PhysPortCnt,
	}
}

func deviceAttrExFromC(c *abi.DeviceAttrEx) *DeviceAttrEx {
	return &DeviceAttrEx{
		ODP: ODPCaps{
			General: ODPFlags(c.ODPCaps.GeneralCaps),
			RC:      ODPOps(c.ODPCaps.PerTransportCaps.RCODPCaps),
			UC:      ODPOps(c.ODPCaps.PerTransportCaps.UCODPCaps),
			UD:      ODPOps(c.ODPCaps.PerTransportCaps.UDODPCaps),
			XRC:     ODPOps(c.XRCODPCaps),
		},
		CompletionTimestampMask: c.CompletionTimestampMask,
		HCACoreClockKHz:         c.HCACoreClock,
		CapFlagsEx:              DeviceCapFlags(c.DeviceCapFlagsEx),
		TSOMaxBytes:             c.TSOCaps.MaxTSO,
		TSOQPTypes:              QPTypes(c.TSOCaps.SupportedQpts),
		RSS: RSSCaps{
			QPTypes:                 QPTypes(c.RSSCaps.SupportedQpts),
			MaxIndirectionTables:    c.RSSCaps.MaxRwqIndirectionTables,
			MaxIndirectionTableSize: c.RSSCaps.MaxRwqIndirectionTableSize,
			HashFields:              HashFields(c.RSSCaps.RxHashFieldsMask),
			HashFunctions:           HashFuncs(c.RSSCaps.RxHashFunction),
		},
		MaxWQTypeRQ: c.MaxWQTypeRQ,
		PacketPacing: PacketPacingCaps{
			Min:     c.PacketPacingCaps.QPRateLimitMin,
			Max:     c.PacketPacingCaps.QPRateLimitMax,
			QPTypes: QPTypes(c.PacketPacingCaps.SupportedQpts),
		},
		RawPacketCaps: RawPacketCaps(c.RawPacketCaps),
		TagMatching: TagMatchingCaps{
			MaxRendezvousHeader: c.TMCaps.MaxRndvHdrSize,
			MaxTags:             c.TMCaps.MaxNumTags,
			Flags:               TagMatchingFlags(c.TMCaps.Flags),
			MaxOps:              c.TMCaps.MaxOps,
			MaxSGE:              c.TMCaps.MaxSGE,
		},
		CQModerationMaxCount:  c.CQModCaps.MaxCQCount,
		CQModerationMaxPeriod: c.CQModCaps.MaxCQPeriod,
		MaxDMSize:             c.MaxDMSize,
		PCIAtomicFetchAdd:     AtomicSizes(c.PciAtomicCaps.FetchAdd),
		PCIAtomicSwap:         AtomicSizes(c.PciAtomicCaps.Swap),
		PCIAtomicCompareSwap:  AtomicSizes(c.PciAtomicCaps.CompareSwap),
		PhysPortCntEx:         c.PhysPortCntEx,
	}
}

// cString returns the text before the first NUL.
func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
