package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// report is the result of devinfo; its tags define the JSON output.
type report struct {
	Version int      `json:"version"` // of this format
	Devices []device `json:"devices"`
}

type device struct {
	Name         string `json:"name"`
	NodeGUID     string `json:"node_guid"`
	NodeType     string `json:"node_type"`
	Transport    string `json:"transport"`
	Firmware     string `json:"firmware_version,omitempty"`
	SysImageGUID string `json:"sys_image_guid,omitempty"`
	VendorID     uint32 `json:"vendor_id"`
	VendorPartID uint32 `json:"vendor_part_id"`
	HWVersion    uint32 `json:"hw_version"`
	CompVectors  int    `json:"completion_vectors"`
	Attributes   fields `json:"attributes,omitempty"`
	Extended     fields `json:"extended_attributes,omitempty"`
	Ports        []port `json:"ports"`
	Error        string `json:"error,omitempty"` // why the rest is missing
	known        bool   // false when it could not be opened
}

type port struct {
	Port       int     `json:"port"`
	State      string  `json:"state"`
	PhysState  string  `json:"phys_state"`
	LinkLayer  string  `json:"link_layer"`
	MaxMTU     int     `json:"max_mtu_bytes"`
	ActiveMTU  int     `json:"active_mtu_bytes"`
	Rate       string  `json:"rate"`
	RateGbps   float64 `json:"rate_gbps"`
	LID        uint16  `json:"lid"`
	SMLID      uint16  `json:"sm_lid"`
	LMC        uint8   `json:"lmc"`
	Attributes fields  `json:"attributes"`
	GIDs       []gid   `json:"gids"`
	PKeys      []pkey  `json:"pkeys"`
}

type gid struct {
	Index  int    `json:"index"`
	GID    string `json:"gid"`
	Type   string `json:"type"`
	Netdev string `json:"netdev,omitempty"`
}

type pkey struct {
	Index int    `json:"index"`
	PKey  string `json:"pkey"` // 0x8000 is full membership
}

// fields are names and values in the order in which they are shown.
type fields []field

type field struct {
	name  string
	value any
}

// MarshalJSON makes an object of them.
func (fs fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, f := range fs {
		b.WriteByte("{,"[min(i, 1)])
		v, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", f.name, v)
	}
	if len(fs) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// look queries the devices. A device that cannot be opened is in the report, with the reason, and
// in the error.
func look(opt options) (*report, error) {
	devices, err := ibv.Devices()
	if err != nil {
		return nil, err
	}
	r := &report{Version: 1, Devices: []device{}}
	var errs []error
	for _, d := range devices {
		if opt.device != "" && d.Name != opt.device {
			continue
		}
		x := device{Name: d.Name, NodeGUID: d.GUID.String(), NodeType: d.NodeType.String(),
			Transport: d.Transport.String(), Ports: []port{}}
		if !opt.list {
			if err := x.ask(d, opt.port); err != nil {
				x.Error = err.Error()
				errs = append(errs, err)
			}
		}
		r.Devices = append(r.Devices, x)
	}
	if len(r.Devices) == 0 {
		return nil, noDevice(opt.device, devices)
	}
	return r, errors.Join(errs...)
}

func noDevice(name string, devices []ibv.DeviceInfo) error {
	if name == "" {
		return fmt.Errorf("%w on this host: is the driver loaded? see /sys/class/infiniband", ibv.ErrNoDevice)
	}
	var have []string
	for _, d := range devices {
		have = append(have, d.Name)
	}
	return fmt.Errorf("%w: %s; there are %v", ibv.ErrNoDevice, name, have)
}

func (x *device) ask(d ibv.DeviceInfo, only int) (err error) {
	dev, err := d.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	a, err := dev.QueryDevice()
	if err != nil {
		return err
	}
	if only > int(a.PhysPortCnt) {
		return fmt.Errorf("-i %d: %s has %d ports", only, d.Name, a.PhysPortCnt)
	}
	x.known = true
	x.Firmware, x.SysImageGUID = a.FirmwareVersion, a.SysImageGUID.String()
	x.VendorID, x.VendorPartID, x.HWVersion = a.VendorID, a.VendorPartID, a.HWVersion
	x.CompVectors = dev.NumCompVectors()
	x.Attributes = attributes(a)
	if a.Ex != nil {
		x.Extended = extended(a.Ex)
	}
	table, err := dev.GIDTable()
	if err != nil {
		return err
	}
	for n := 1; n <= int(a.PhysPortCnt); n++ {
		if only != 0 && n != only {
			continue
		}
		p, err := askPort(dev, uint8(n), table)
		if err != nil {
			return err
		}
		x.Ports = append(x.Ports, p)
	}
	return nil
}

func askPort(dev *ibv.Device, n uint8, table []ibv.GIDEntry) (port, error) {
	a, err := dev.QueryPort(n)
	if err != nil {
		return port{}, err
	}
	p := port{
		Port:      int(n),
		State:     a.State.String(),
		PhysState: a.PhysState.String(),
		LinkLayer: a.LinkLayer.String(),
		MaxMTU:    a.MaxMTU.Bytes(),
		ActiveMTU: a.ActiveMTU.Bytes(),
		Rate:      a.Rate(),
		RateGbps:  a.RateGbps(),
		LID:       a.LID,
		SMLID:     a.SMLID,
		LMC:       a.LMC,
		Attributes: fields{
			{"max_message_bytes", a.MaxMsgSize},
			{"port_cap_flags", hex(a.CapFlags)},
			{"port_caps", a.CapFlags.String()},
			{"port_cap_flags2", hex(a.CapFlags2)},
			{"port_caps2", a.CapFlags2.String()},
			{"max_vl_num", a.MaxVLNum},
			{"bad_pkey_counter", a.BadPKeyCntr},
			{"qkey_violation_counter", a.QKeyViolCntr},
			{"sm_sl", a.SMSL},
			{"subnet_timeout", uint8(a.SubnetTimeout)},
			{"init_type_reply", a.InitTypeReply},
			{"gid_table_length", a.GIDTableLen},
			{"pkey_table_length", a.PKeyTableLen},
			{"active_width", a.ActiveWidth},
			{"active_speed", a.ActiveSpeed},
		},
		GIDs:  []gid{},
		PKeys: []pkey{},
	}
	for _, e := range table {
		if e.Port == n {
			p.GIDs = append(p.GIDs, gid{e.Index, e.GID.String(), e.Type.String(), e.Netdev})
		}
	}
	for i := range a.PKeyTableLen {
		k, err := dev.QueryPKey(n, i)
		if err != nil {
			return port{}, err
		}
		if k != 0 {
			p.PKeys = append(p.PKeys, pkey{i, fmt.Sprintf("0x%04x", k)})
		}
	}
	return p, nil
}

func hex[T ~uint8 | ~uint16 | ~uint32 | ~uint64](n T) string { return fmt.Sprintf("%#x", uint64(n)) }

func attributes(a *ibv.DeviceAttr) fields {
	return fields{
		{"max_mr_bytes", a.MaxMRSize},
		{"page_size_caps", hex(a.PageSizeCap)},
		{"max_qp", a.MaxQP},
		{"max_qp_wr", a.MaxQPWR},
		{"device_cap_flags", hex(a.CapFlags)},
		{"device_caps", a.CapFlags.String()},
		{"max_sge", a.MaxSGE},
		{"max_sge_rd", a.MaxSGERead},
		{"max_cq", a.MaxCQ},
		{"max_cqe", a.MaxCQE},
		{"max_mr", a.MaxMR},
		{"max_pd", a.MaxPD},
		{"max_qp_rd_atom", a.MaxQPRdAtom},
		{"max_res_rd_atom", a.MaxResRdAtom},
		{"max_qp_init_rd_atom", a.MaxQPInitRdAtom},
		{"atomic_cap", a.AtomicCap.String()},
		{"max_mw", a.MaxMW},
		{"max_raw_ethy_qp", a.MaxRawEthyQP},
		{"max_mcast_grp", a.MaxMcastGroups},
		{"max_mcast_qp_attach", a.MaxMcastQPAttach},
		{"max_total_mcast_qp_attach", a.MaxTotalMcastQPAttach},
		{"max_ah", a.MaxAH},
		{"max_srq", a.MaxSRQ},
		{"max_srq_wr", a.MaxSRQWR},
		{"max_srq_sge", a.MaxSRQSGE},
		{"max_pkeys", a.MaxPKeys},
		{"local_ca_ack_delay", uint8(a.LocalCAAckDelay)},
		{"phys_port_cnt", a.PhysPortCnt},
	}
}

func extended(e *ibv.DeviceAttrEx) fields {
	return fields{
		{"odp_general_caps", hex(e.ODP.General)},
		{"odp_rc_caps", hex(e.ODP.RC)},
		{"odp_uc_caps", hex(e.ODP.UC)},
		{"odp_ud_caps", hex(e.ODP.UD)},
		{"odp_xrc_caps", hex(e.ODP.XRC)},
		{"completion_timestamp_mask", hex(e.CompletionTimestampMask)},
		{"hca_core_clock_khz", e.HCACoreClockKHz},
		{"device_cap_flags_ex", hex(e.CapFlagsEx)},
		{"raw_packet_caps", hex(e.RawPacketCaps)},
		{"tso_max_bytes", e.TSOMaxBytes},
		{"tso_qp_types", hex(e.TSOQPTypes)},
		{"rss_qp_types", hex(e.RSS.QPTypes)},
		{"rss_max_indirection_tables", e.RSS.MaxIndirectionTables},
		{"rss_max_indirection_table_size", e.RSS.MaxIndirectionTableSize},
		{"rss_hash_functions", hex(e.RSS.HashFunctions)},
		{"rss_hash_fields_mask", hex(e.RSS.HashFields)},
		{"max_wq_type_rq", e.MaxWQTypeRQ},
		{"rate_limit_min_kbps", e.PacketPacing.Min},
		{"rate_limit_max_kbps", e.PacketPacing.Max},
		{"tm_max_tags", e.TagMatching.MaxTags},
		{"tm_max_rendezvous_header_bytes", e.TagMatching.MaxRendezvousHeader},
		{"cq_moderation_max_count", e.CQModerationMaxCount},
		{"cq_moderation_max_period_us", e.CQModerationMaxPeriod},
		{"max_device_memory_bytes", e.MaxDMSize},
	}
}
