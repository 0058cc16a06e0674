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

// Limits are what the device reports and keeps to. C: struct ibv_device_attr.
type Limits struct {
	MaxQP      int    `limit:"max_qp"`
	MaxQPWR    int    `limit:"max_qp_wr"`
	MaxSGE     int    `limit:"max_sge"`
	MaxInline  int    `limit:"max_inline"` // bytes of inline data; a QP that asks for more is granted this
	MaxCQ      int    `limit:"max_cq"`
	MaxCQE     int    `limit:"max_cqe"`
	MaxMR      int    `limit:"max_mr"`
	MaxMRSize  uint64 `limit:"max_mr_size"` // bytes
	MaxMW      int    `limit:"max_mw"`
	MaxPD      int    `limit:"max_pd"`
	MaxSRQ     int    `limit:"max_srq"`
	MaxSRQWR   int    `limit:"max_srq_wr"`
	MaxSRQSGE  int    `limit:"max_srq_sge"`
	MaxAH      int    `limit:"max_ah"`
	MaxXRCD    int    `limit:"max_xrcd"`
	MaxRdAtom  int    `limit:"max_rd_atom"` // outstanding READs and atomics of a QP, either side
	MaxAtomic  int    `limit:"max_atomic"`  // bytes of the longest atomic; 0 = none
	MaxMcast   int    `limit:"max_mcast"`   // multicast groups
	MaxMsgSize uint32 `limit:"max_msg_size"`
	MaxUAR     int    `limit:"max_uar"`     // doorbell pages of a context
	MaxDMSize  uint64 `limit:"max_dm_size"` // bytes of device memory
}
