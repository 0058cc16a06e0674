//go:build linux

package verbs

import (
	"math/bits"
	"slices"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Groups of capabilities. C: enum mlx5_cap_type; the modifier of query_hca_cap is twice that, and one more for what is
// set rather than what is possible, which is the same here.
const (
	capGeneral  = 0x00
	capODP      = 0x02
	capAtomic   = 0x03
	capRoCE     = 0x04
	capNICFlow  = 0x07
	capQoS      = 0x0c
	capMemory   = 0x0f
	capGeneral2 = 0x20
)

// emptyGroups are groups whose fields are all 0: the adapter answers for them, but has none of what they describe.
// C: MLX5_CAP_DEV_MEM.
var emptyGroups = []uint16{capMemory}

// capability is a field of a group. What no row says is 0: the adapter does not have it.
type capability struct {
	group uint16
	name  string // C: the field of struct mlx5_ifc_cmd_hca_cap_bits, atomic_caps, odp_cap, …
	bits  uapi.Bits
	value func(d *hca.Device) uint64
}

// capabilities is the one place that knows what query_hca_cap tells. A row says what the engine does.
var capabilities = []capability{
	{capGeneral, "hca_cap_2", flag(0x20), always(1)},
	{capGeneral, "log_dma_mmo_max_size", field(0x6b, 5), yesTimes(recent, logMaxCopy)},
	{capGeneral, "log_max_srq_sz", field(0x80, 8), log(func(l *config.Limits) int { return l.MaxSRQWR })},
	{capGeneral, "log_max_qp_sz", field(0x88, 8), log(func(l *config.Limits) int { return l.MaxQPWR })},
	{capGeneral, "log_max_qp", field(0x9b, 5), log(func(l *config.Limits) int { return l.MaxQP })},
	{capGeneral, "log_max_srq", field(0xab, 5), log(func(l *config.Limits) int { return l.MaxSRQ })},
	{capGeneral, "log_max_cq_sz", field(0xc8, 8), log(func(l *config.Limits) int { return l.MaxCQE })},
	{capGeneral, "log_max_cq", field(0xdb, 5), log(func(l *config.Limits) int { return l.MaxCQ })},
	{capGeneral, "log_max_mkey", field(0xea, 6), log(func(l *config.Limits) int { return l.MaxMR + l.MaxMW })},
	{capGeneral, "dump_fill_mkey", flag(0xf8), always(1)},
	{capGeneral, "null_mkey", flag(0x119), always(1)},
	{capGeneral, "qpc_extension", flag(0x122), yes(recent)},
	{capGeneral, "log_max_ra_req_dc", field(0x12a, 6), log(func(l *config.Limits) int { return l.MaxRdAtom })},
	{capGeneral, "log_max_ra_res_dc", field(0x13a, 6), log(func(l *config.Limits) int { return l.MaxRdAtom })},
	{capGeneral, "log_max_ra_req_qp", field(0x14a, 6), log(func(l *config.Limits) int { return l.MaxRdAtom })},
	{capGeneral, "rts2rts_qp_udp_sport", flag(0x151), yes(ethernet)},
	{capGeneral, "rts2rts_lag_tx_port_affinity", flag(0x152), yes(bonded)},
	{capGeneral, "log_max_ra_res_qp", field(0x15a, 6), log(func(l *config.Limits) int { return l.MaxRdAtom })},
	{capGeneral, "device_memory", flag(0x1a8), always(1)},
	{capGeneral, "local_ca_ack_delay", field(0x1ab, 5), always(16)},
	{capGeneral, "port_type", field(0x1b6, 2), yes(ethernet)},
	{capGeneral, "num_ports", field(0x1b8, 8), func(d *hca.Device) uint64 { return uint64(len(d.Ports)) }},
	{capGeneral, "log_max_msg", field(0x1c3, 5), log(func(l *config.Limits) int { return int(l.MaxMsgSize) })},
	{capGeneral, "cqe_version", field(0x1fc, 4), func(d *hca.Device) uint64 { return uint64(d.Config.CQEVersion) }},
	{capGeneral, "sctr_data_cqe", flag(0x215), always(1)},
	{capGeneral, "sho", flag(0x217), always(1)},
	{capGeneral, "sigerr_cqe", flag(0x212), always(1)},
	{capGeneral, "sigerr_domain_and_sig_type", flag(0x480), always(1)},
	{capGeneral, "sig_crc32c", flag(0x148), always(1)},
	{capGeneral, "sig_block_4048", flag(0x1f0), always(1)},
	{capGeneral, "dct", flag(0x21a), always(1)},
	{capGeneral, "qos", flag(0x21b), yes(recent)},
	{capGeneral, "roce", flag(0x21d), yes(ethernet)},
	{capGeneral, "atomic", flag(0x21e), yes(func(d *hca.Device) bool { return d.Config.Limits.MaxAtomic > 0 })},
	{capGeneral, "cq_resize", flag(0x221), always(1)},
	{capGeneral, "cq_moderation", flag(0x222), always(1)},
	{capGeneral, "pg", flag(0x227), always(1)},
	{capGeneral, "imaicl", flag(0x231), always(1)},
	{capGeneral, "xrc", flag(0x23c), always(1)},
	{capGeneral, "ud", flag(0x23d), always(1)},
	{capGeneral, "uc", flag(0x23e), always(1)},
	{capGeneral, "rc", flag(0x23f), always(1)},
	{capGeneral, "uar_4k", flag(0x240), always(1)},
	{capGeneral, "log_pg_sz", field(0x258, 8), always(12)},
	{capGeneral, "bf", flag(0x260), always(1)},
	{capGeneral, "log_bf_reg_size", field(0x26b, 5), always(9)},
	{capGeneral, "lag_tx_port_affinity", flag(0x278), yes(bonded)},
	{capGeneral, "lag_master", flag(0x27b), yes(bonded)},
	{capGeneral, "num_lag_ports", field(0x27c, 4), func(d *hca.Device) uint64 { return uint64(d.Config.LAGPorts) }},
	{capGeneral, "max_wqe_sz_sq", field(0x290, 16), always(1024)},
	{capGeneral, "max_wqe_sz_rq", field(0x2b0, 16), always(512)},
	{capGeneral, "max_wqe_sz_sq_dc", field(0x2d0, 16), always(1024)},
	{capGeneral, "log_max_transport_domain", field(0x323, 5), log(func(l *config.Limits) int { return l.MaxPD })},
	{capGeneral, "dp_ordering_ooo_all_ud", flag(0x330), yes(recent)}, // in order is one of the orders
	{capGeneral, "dp_ordering_ooo_all_uc", flag(0x331), yes(recent)},
	{capGeneral, "dp_ordering_ooo_all_xrc", flag(0x332), yes(recent)},
	{capGeneral, "dp_ordering_ooo_all_dc", flag(0x333), yes(recent)},
	{capGeneral, "dp_ordering_ooo_all_rc", flag(0x334), yes(recent)},
	{capGeneral, "log_max_pd", field(0x32b, 5), log(func(l *config.Limits) int { return l.MaxPD })},
	{capGeneral, "log_max_xrcd", field(0x33b, 5), log(func(l *config.Limits) int { return l.MaxXRCD })},
	{capGeneral, "general_obj_types", field(0x400, 64), generalObjectTypes},
	{capGeneral, "device_frequency_mhz", field(0x4c0, 32), always(clockKHz / 1000)},
	{capGeneral, "device_frequency_khz", field(0x4e0, 32), always(clockKHz)},
	{capGeneral, "log_max_atomic_size_qp", field(0x580, 8), log(func(l *config.Limits) int { return l.MaxAtomic })},
	{capGeneral, "log_max_atomic_size_dc", field(0x598, 8), log(func(l *config.Limits) int { return l.MaxAtomic })},
	{capGeneral, "dma_mmo_qp", flag(0x748), yes(recent)},

	{capGeneral2, "log_reserved_qpn_granularity", field(0x93, 5), always(logReservedQPNs)},

	{capODP, "rc_odp_caps", field(0x80, 32), odp(odpConnected)},
	{capODP, "ud_odp_caps", field(0xc0, 32), odp(odpUD)},
	{capODP, "dc_odp_caps", field(0x100, 32), odp(odpConnected)},
	{capODP, "xrc_odp_caps", field(0xe0, 32), odp(odpConnected)},

	// Numbers of 8 bytes are the program's, whatever its byte order. The previous value of other sizes is big-endian.
	{capAtomic, "atomic_req_8B_endianness_mode", field(0x40, 2), always(1)},
	{capAtomic, "supported_atomic_req_8B_endianness_mode_1", flag(0x46), always(1)},
	{capAtomic, "atomic_operations", field(0x90, 16), always(0xf)}, // swap, add, and both masked
	{capAtomic, "atomic_size_qp", field(0xb0, 16), atomicSizes},
	{capAtomic, "atomic_size_dc", field(0xd0, 16), atomicSizes},

	// Rates are kept, and have no effect.
	{capQoS, "packet_pacing", flag(0x0), yes(recent)},
	{capQoS, "nic_sq_scheduling", flag(0x8), yes(recent)},
	{capQoS, "nic_bw_share", flag(0x9), yes(recent)},
	{capQoS, "nic_rate_limit", flag(0xa), yes(recent)},
	{capQoS, "packet_pacing_uid", flag(0xb), yes(recent)},
	{capQoS, "nic_qp_scheduling", flag(0x21), yes(recent)},
	{capQoS, "packet_pacing_max_rate", field(0x40, 32), yesTimes(recent, hca.MaxPace)},
	{capQoS, "packet_pacing_min_rate", field(0x60, 32), yes(recent)},
	{capQoS, "packet_pacing_rate_table_size", field(0x90, 16), yesTimes(recent, hca.MaxPaces)},
	{capQoS, "nic_element_type", field(0x100, 16), yesTimes(recent, 1<<schedNode|1<<schedLeaf)},
	{capQoS, "nic_tsar_type", field(0x110, 16), yesTimes(recent, 1<<schedDWRR)},

	// What rules of the root tables do.
	{capNICFlow, "encap_general_header", flag(0x20), yes(ethernet)},
	{capNICFlow, "log_max_packet_reformat_context", field(0x2b, 5), yesTimes(ethernet, 10)},
	{capNICFlow, "flow_table_properties_nic_receive.ft_support", flag(0x200), yes(ethernet)},
	{capNICFlow, "flow_table_properties_nic_receive.flow_tag", flag(0x201), yes(ethernet)},
	{capNICFlow, "flow_table_properties_nic_receive.flow_counter", flag(0x202), yes(ethernet)},
	{capNICFlow, "flow_table_properties_nic_receive.reformat", flag(0x207), yes(ethernet)},
	{capNICFlow, "flow_table_properties_nic_receive.decap", flag(0x208), yes(ethernet)},
	{capNICFlow, "flow_table_properties_nic_receive.reformat_l3_tunnel_to_l2", flag(0x212), yes(ethernet)},
	{capNICFlow, "flow_table_properties_nic_transmit.ft_support", flag(0x800), yes(ethernet)},
	{capNICFlow, "flow_table_properties_nic_transmit.flow_counter", flag(0x802), yes(ethernet)},
	{capNICFlow, "flow_table_properties_nic_transmit.reformat", flag(0x807), yes(ethernet)},
	{capNICFlow, "flow_table_properties_nic_transmit.reformat_l2_to_l3_tunnel", flag(0x813), yes(ethernet)},

	{capRoCE, "fl_rc_qp_when_roce_enabled", flag(0x6), yes(ethernet)},
}

// Bits of a group, counted from its begin.
func field(at, n int) uapi.Bits { return uapi.Bits{At: at, Len: n} }
func flag(at int) uapi.Bits     { return field(at, 1) }

func always(v uint64) func(*hca.Device) uint64 { return func(*hca.Device) uint64 { return v } }

func yes(f func(*hca.Device) bool) func(*hca.Device) uint64 { return yesTimes(f, 1) }

func yesTimes(f func(*hca.Device) bool, v uint64) func(*hca.Device) uint64 {
	return func(d *hca.Device) uint64 { return v * uint64(bit(f(d))) }
}

// atomicSizes has a bit for each size of an atomic: 4 to 32 bytes.
func atomicSizes(d *hca.Device) (sizes uint64) {
	for n := 4; n <= d.Config.Limits.MaxAtomic; n *= 2 {
		sizes |= uint64(n)
	}
	return sizes
}

// log is the greatest power of two that a limit admits.
func log(f func(*config.Limits) int) func(*hca.Device) uint64 {
	return func(d *hca.Device) uint64 { return uint64(max(bits.Len(uint(f(&d.Config.Limits)))-1, 0)) }
}

// odp translates uverbs' bits, which begin with the lowest one, into those of a context.
func odp(caps uint32) func(*hca.Device) uint64 { return always(uint64(bits.Reverse32(caps))) }

func ethernet(d *hca.Device) bool {
	return len(d.Ports) > 0 && d.Ports[0].Config.LinkLayer == config.Ethernet
}

// recent adapters have streams of a DCI, a scheduler, copies of memory and data out of order, too.
var recent = (*hca.Device).Recent

func bonded(d *hca.Device) bool { return d.Config.LAGPorts > 0 }

// capabilityBits is where the groups begin in an answer.
const capabilityBits = 0x80

func queryHCACap(d *command) uapi.Status {
	mod := uint16(uapi.CmdOpMod.Get(d.in))
	known := slices.Contains(emptyGroups, mod>>1)
	for i := range capabilities {
		if c := &capabilities[i]; c.group == mod>>1 {
			known = true
			c.bits.In(capabilityBits).Put(d.out, c.value(d.ctx.Device))
		}
	}
	if !known {
		return uapi.StatusBadParam
	}
	return uapi.StatusOK
}
