package config

// Config is the emulated machine. It is not changed after [Config.Validate].
type Config struct {
	Devices []Device
	// MemlockLimit bounds the bytes a process may have registered, as RLIMIT_MEMLOCK does; 0 = no bound.
	MemlockLimit uint64
	// Host is set by [Config.UseHost]: the netdevs are those of the machine. Otherwise they are all emulated, in a
	// network of their own.
	Host bool

	fixed []Netdev // by Fix
}

// Device is one adapter. Its index in [Config] is the N of uverbsN.
type Device struct {
	Name            string // mlx5_0
	Model           Model
	NodeGUID        GUID
	FirmwareVersion string // 28.39.1002
	BoardID         string // the PSID
	NodeDesc        string
	Ports           []Port
	Limits          Limits
	NUMANode        int    // -1 = none
	PCI             string // 00e0:01:00.0
	MemfdDmabuf     bool   // a memfd counts as a dma-buf, which no kernel does
	MinInline       int    // bytes of a frame that a WQE must carry itself: 0 or 18, as a ConnectX-4 wants
	NoDevX          bool   // opening with DevX fails, as on an adapter whose firmware has it disabled
	LAGPorts        int    // ports of the bond that the device is; 0: it is none
	ABI             ABI    // what of the commands' forms the kernel has
	CQEVersion      int    // 1, or 0 as Connect-IB has it: CQEs do not carry the program's index of a queue
}

// Port is one port of a device as it is when the program starts.
type Port struct {
	LinkLayer   LinkLayer
	State       PortState
	PhysState   PhysState
	MaxMTU      MTU
	ActiveMTU   MTU
	Width       Width
	Speed       Speed
	LID         uint16
	SMLID       uint16
	LMC         uint8
	SMSL        uint8
	CapFlags    uint32   // C: ibv_port_attr.port_cap_flags
	NeedsGRH    bool     // an InfiniBand port without a LID of its own, as a VF's: each address has a GID
	Netdev      string   // Ethernet only
	MAC         MAC      // of the netdev
	GIDTableLen int      // entries, empty ones included
	GIDs        []GID    // by index; a zero GID is an empty entry
	PKeys       []uint16 // by index
}

// GID is an entry of a port's GID table.
type GID struct {
	GID    Addr
	Type   GIDType
	Netdev string // "" on InfiniBand
	VLAN   int    // 0 = untagged
}

// Limits are what the device reports and keeps to, by default what a ConnectX-7 reports. C: struct ibv_device_attr.
// What may be set is at least 1, unless a device may be without the thing, and at most what the device's own formats
// have room for: a QPN has 24 bits, a WQE index 16.
type Limits struct {
	MaxQP   int `limit:"max_qp" default:"0x20000" most:"0x400000"`
	MaxQPWR int `limit:"max_qp_wr" default:"32768" most:"32768"`
	MaxSGE  int `limit:"max_sge" default:"30" most:"60"`
	// bytes of inline data; a QP that asks for more is granted this
	MaxInline  int    `limit:"max_inline" default:"972" least:"0" most:"1000"`
	MaxCQ      int    `limit:"max_cq" default:"0x1000000" most:"0x1000000"`
	MaxCQE     int    `limit:"max_cqe" default:"0x3fffff" most:"0x3fffff"`
	MaxMR      int    `limit:"max_mr" default:"0x1000000" most:"0x1000000"`
	MaxMRSize  uint64 `limit:"max_mr_size" default:"0xffffffffffffffff"` // bytes
	MaxMW      int    `limit:"max_mw" default:"0x1000000" least:"0" most:"0x1000000"`
	MaxPD      int    `limit:"max_pd" default:"0x800000" most:"0x1000000"`
	MaxSRQ     int    `limit:"max_srq" default:"0x800000" least:"0" most:"0x1000000"`
	MaxSRQWR   int    `limit:"max_srq_wr" default:"32767" least:"0" most:"32767"`
	MaxSRQSGE  int    `limit:"max_srq_sge" default:"31" most:"31"`
	MaxAH      int    `limit:"max_ah" default:"0x7fffffff"`
	MaxXRCD    int    `limit:"max_xrcd" default:"0x1000000" most:"0x1000000"`
	MaxRdAtom  int    `limit:"max_rd_atom" default:"16" most:"128"`         // READs and atomics of a QP, each side
	MaxAtomic  int    `limit:"max_atomic" default:"32" least:"0" most:"32"` // bytes of the longest atomic; 0 = none
	MaxMcast   int    `limit:"max_mcast" default:"0x200000"`                // multicast groups
	MaxMsgSize uint32 `limit:"max_msg_size" default:"0x40000000" most:"0x80000000"`
	MaxUAR     int    `limit:"max_uar" default:"512" most:"4096"`             // doorbell pages of a context
	MaxDMSize  uint64 `limit:"max_dm_size" default:"0x40000" most:"0x100000"` // bytes of device memory
}
