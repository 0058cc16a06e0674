package uverbs

import (
	"structs"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// DeviceAttr is struct ib_uverbs_query_device_resp of rdma/ib_user_verbs.h. GUIDs are big endian.
type DeviceAttr struct {
	_                                                             structs.HostLayout
	FWVer                                                         uint64
	NodeGUID, SysImageGUID                                        uint64
	MaxMRSize, PageSizeCap                                        uint64
	VendorID, VendorPartID, HWVer, MaxQP, MaxQPWR, DeviceCapFlags uint32
	MaxSGE, MaxSGERd, MaxCQ, MaxCQE, MaxMR, MaxPD                 uint32
	MaxQPRdAtom, MaxEERdAtom, MaxResRdAtom, MaxQPInitRdAtom       uint32
	MaxEEInitRdAtom, AtomicCap, MaxEE, MaxRDD, MaxMW              uint32
	MaxRawIPv6QP, MaxRawEthyQP, MaxMcastGrp, MaxMcastQPAttach     uint32
	MaxTotalMcastQPAttach, MaxAH, MaxFMR, MaxMapPerFMR            uint32
	MaxSRQ, MaxSRQWR, MaxSRQSGE                                   uint32
	MaxPkeys                                                      uint16
	LocalCAAckDelay, PhysPortCnt                                  uint8
	_                                                             [4]byte
}

// DeviceAttrEx is struct ib_uverbs_ex_query_device_resp.
type DeviceAttrEx struct {
	_                                         structs.HostLayout
	DeviceAttr                                DeviceAttr
	CompMask, ResponseLength                  uint32
	ODPCaps                                   uint64
	RCODPCaps, UCODPCaps, UDODPCaps           uint32
	_                                         uint32
	TimestampMask, HCACoreClock               uint64
	DeviceCapFlagsEx                          uint64
	RSSQPTs, RSSTables, RSSTableSize          uint32
	_                                         uint32
	MaxWQTypeRQ, RawPacketCaps                uint32
	MaxRndvHdr, MaxTags, TMFlags, TMMaxOps    uint32
	TMMaxSGE, _                               uint32
	MaxCQModerationCount, MaxCQModerationUsec uint16
	_                                         uint32
	MaxDMSize                                 uint64
	XRCODPCaps, _                             uint32
}

type responseOnly struct {
	_        structs.HostLayout
	response uint64
}

// QueryDevice returns the attributes of the device. explain is false for the question whether it is still there.
func (f *File) QueryDevice(explain bool) (*DeviceAttr, error) {
	q, r := new(responseOnly), new(DeviceAttr)
	m := request{in: Bytes(q), out: Bytes(r)}
	if !explain {
		_, err := f.send(&queryDevice, &m, nil)
		return r, err
	}
	return r, f.do(&queryDevice, m)
}

// QueryDeviceEx returns more of them, as many as ResponseLength says. EOPNOTSUPP and ENOSYS mean that the kernel lacks
// the command.
func (f *File) QueryDeviceEx(d Driver) (*DeviceAttrEx, error) {
	q, r := new(struct {
		_        structs.HostLayout
		compMask uint32
		_        uint32
	}), new(DeviceAttrEx)
	if err := f.do(&queryDeviceEx, request{Bytes(q), Bytes(r), d}); err != nil {
		return nil, err
	}
	n := r.ResponseLength
	least, most := sizeOf[DeviceAttr]()+8, sizeOf[DeviceAttrEx]()
	ok := uintptr(n) >= least && uintptr(n) <= most
	return r, check(ok, queryDeviceEx.name, "length", uint64(n), "that of the struct")
}

// PortAttr is struct ib_uverbs_query_port_resp_ex of rdma/ib_user_ioctl_verbs.h. A write fills its first 40 bytes.
type PortAttr struct {
	_                                                             structs.HostLayout
	CapFlags, MaxMsgSize, BadPKeyCntr, QKeyViolCntr, GIDTableLen  uint32
	PKeyTableLen, LID, SMLID                                      uint16
	State, MaxMTU, ActiveMTU, LMC, MaxVLNum, SMSL, SubnetTimeout  uint8
	InitTypeReply, ActiveWidth, ActiveSpeed, PhysState, LinkLayer uint8
	Flags, _                                                      uint8
	CapFlags2                                                     uint16
	_                                                             [2]uint8
	ActiveSpeedEx                                                 uint32
}

// portAttrOld is the size of struct ib_uverbs_query_port_resp.
const portAttrOld = 40

// QueryPort returns the attributes of a port.
func (f *File) QueryPort(port uint8) (*PortAttr, error) {
	q := &struct {
		_        structs.HostLayout
		response uint64
		port     uint8
		_        [7]uint8
	}{port: port}
	r := new(PortAttr)
	return r, f.do(&queryPort, request{in: Bytes(q), out: Bytes(r)[:portAttrOld]}, Uint64(0, uint64(port)),
		Out(1, Bytes(r)))
}

// GIDEntry is struct ib_uverbs_gid_entry, which is as that of libibverbs.
type GIDEntry = abi.GIDEntry

// QueryGIDEntry fills in an entry of the GID table. The error matches Absent before Linux 5.10.
func (f *File) QueryGIDEntry(port uint32, index uint32, r *GIDEntry) error {
	return f.do(&queryGIDEntry, request{}, Uint64(0, uint64(port)), Uint64(1, uint64(index)), Uint32(2, 0),
		Out(3, Bytes(r)))
}

// QueryGIDTable fills entries with those of all ports, and returns how many there are.
func (f *File) QueryGIDTable(entries []GIDEntry) (int, error) {
	n := new(uint64)
	err := f.do(&queryGIDTable, request{}, Uint64(0, uint64(sizeOf[GIDEntry]())), Uint32(1, 0),
		Out(2, BytesOf(entries)), Out(3, Bytes(n)))
	if err != nil {
		return 0, err
	}
	ok := *n <= uint64(len(entries))
	return int(*n), check(ok, queryGIDTable.name, "entries", *n, "at most those that there is room for")
}
