package config

// Config is the emulated machine. It is not changed after [Config.Validate].
type Config struct {
	Devices []Device `json:"devices"`
	// MemlockLimit bounds the bytes a process may have registered, as RLIMIT_MEMLOCK does; 0 = no bound.
	MemlockLimit uint64 `json:"memlock_limit,omitempty"`
}

// Device is one adapter. Its index in [Config] is the N of uverbsN.
type Device struct {
	Name            string `json:"name"` // mlx5_0
	Model           Model  `json:"model"`
	NodeGUID        GUID   `json:"node_guid"`
	FirmwareVersion string `json:"firmware_version"` // 28.39.1002
	BoardID         string `json:"board_id"`         // the PSID
	NodeDesc        string `json:"node_desc"`
	Ports           []Port `json:"ports"`
	Limits          Limits `json:"limits"`
	NUMANode        int    `json:"numa_node"` // -1 = none
	PCI             string `json:"pci"`       // 00e0:01:00.0
}

// Port is one port of a device as it is when the program starts.
type Port struct {
	LinkLayer   LinkLayer `json:"link_layer"`
	State       PortState `json:"state"`
	PhysState   PhysState `json:"phys_state"`
	MaxMTU      MTU       `json:"max_mtu"`
	ActiveMTU   MTU       `json:"active_mtu"`
	Width       Width     `json:"width"`
	Speed       Speed     `json:"speed"`
	LID         uint16    `json:"lid"`
	SMLID       uint16    `json:"sm_lid"`
	LMC         uint8     `json:"lmc"`
	SMSL        uint8     `json:"sm_sl"`
	CapFlags    uint32    `json:"cap_flags"`        // C: ibv_port_attr.port_cap_flags
	Netdev      string    `json:"netdev,omitempty"` // Ethernet only
	MAC         MAC       `json:"mac"`              // of the netdev
	GIDTableLen int       `json:"gid_table_len"`    // entries, empty ones included
	GIDs        []GID     `json:"gids"`             // by index; a zero GID is an empty entry
	PKeys       []uint16  `json:"pkeys"`            // by index
}

// GID is an entry of a port's GID table.
type GID struct {
	GID    Addr    `json:"gid"`
	Type   GIDType `json:"type"`
	Netdev string  `json:"netdev,omitempty"` // "" on InfiniBand
	VLAN   int     `json:"vlan,omitempty"`   // 0 = untagged
}

// Limits are what the device reports and keeps to. C: struct ibv_device_attr.
type Limits struct {
	MaxQP      int    `json:"max_qp"`
	MaxQPWR    int    `json:"max_qp_wr"`
	MaxSGE     int    `json:"max_sge"`
	MaxInline  int    `json:"max_inline"` // bytes
	MaxCQ      int    `json:"max_cq"`
	MaxCQE     int    `json:"max_cqe"`
	MaxMR      int    `json:"max_mr"`
	MaxMRSize  uint64 `json:"max_mr_size"` // bytes
	MaxMW      int    `json:"max_mw"`
	MaxPD      int    `json:"max_pd"`
	MaxSRQ     int    `json:"max_srq"`
	MaxSRQWR   int    `json:"max_srq_wr"`
	MaxSRQSGE  int    `json:"max_srq_sge"`
	MaxAH      int    `json:"max_ah"`
	MaxXRCD    int    `json:"max_xrcd"`
	MaxRdAtom  int    `json:"max_rd_atom"` // outstanding READs and atomics of a QP, either side
	MaxMcast   int    `json:"max_mcast"`   // multicast groups
	MaxMsgSize uint32 `json:"max_msg_size"`
	MaxUAR     int    `json:"max_uar"` // doorbell pages of a context
}
