package mlx5dv

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// cParts are the C structs of the parts of a Match.
var cParts = map[string]string{"Outer": "dr_match_spec", "Misc": "dr_match_set_misc", "Inner": "dr_match_spec",
	"Misc2": "dr_match_set_misc2", "Misc3": "dr_match_set_misc3", "Misc4": "dr_match_set_misc4",
	"Misc5": "dr_match_set_misc5"}

// cNames are the C names of fields, the first and the last where there are several.
var cNames = map[string]string{
	"SrcMAC": "smac_47_16 smac_15_0", "DstMAC": "dmac_47_16 dmac_15_0", "EtherType": "ethertype",
	"VLANPrio": "first_prio", "VLANCFI": "first_cfi", "VLANID": "first_vid", "IPProtocol": "ip_protocol",
	"DSCP": "ip_dscp", "ECN": "ip_ecn", "CVLANTag": "cvlan_tag", "SVLANTag": "svlan_tag", "Fragment": "frag",
	"IPVersion": "ip_version", "TCPFlags": "tcp_flags", "TCPSrcPort": "tcp_sport", "TCPDstPort": "tcp_dport",
	"IPv4IHL": "ipv4_ihl", "L3OK": "l3_ok", "L4OK": "l4_ok", "IPv4SumOK": "ipv4_checksum_ok",
	"L4SumOK": "l4_checksum_ok", "TTL": "ip_ttl_hoplimit", "UDPSrcPort": "udp_sport", "UDPDstPort": "udp_dport",
	"SrcIPv6": "src_ip_127_96 src_ip_31_0", "DstIPv6": "dst_ip_127_96 dst_ip_31_0",
	"SrcIPv4": "src_ip_31_0", "DstIPv4": "dst_ip_31_0",
	"GREChecksum": "gre_c_present", "BTHAck": "bth_a", "GREKeyPresent": "gre_k_present",
	"GRESequence": "gre_s_present", "SourceVHCAPort": "source_vhca_port", "SourceSQN": "source_sqn",
	"SourceVHCA": "source_eswitch_owner_vhca_id", "SourcePort": "source_port",
	"OuterSecondPrio": "outer_second_prio", "OuterSecondCFI": "outer_second_cfi", "OuterSecondVID": "outer_second_vid",
	"InnerSecondPrio": "inner_second_prio", "InnerSecondCFI": "inner_second_cfi", "InnerSecondVID": "inner_second_vid",
	"OuterSecondCVLAN": "outer_second_cvlan_tag", "InnerSecondCVLAN": "inner_second_cvlan_tag",
	"OuterSecondSVLAN": "outer_second_svlan_tag", "InnerSecondSVLAN": "inner_second_svlan_tag",
	"OuterEMD": "outer_emd_tag", "GREProtocol": "gre_protocol", "GREKey": "gre_key_h gre_key_l",
	"VXLANVNI": "vxlan_vni", "BTHOpcode": "bth_opcode", "GeneveVNI": "geneve_vni",
	"GeneveOption": "geneve_tlv_option_0_exist", "GeneveOAM": "geneve_oam", "OuterFlowLabel": "outer_ipv6_flow_label",
	"InnerFlowLabel": "inner_ipv6_flow_label", "GeneveOptLen": "geneve_opt_len",
	"GeneveProtocol": "geneve_protocol_type", "BTHDestQP": "bth_dst_qp", "InnerESPSPI": "inner_esp_spi",
	"OuterESPSPI": "outer_esp_spi",
	"OuterMPLS":   "outer_first_mpls_label outer_first_mpls_ttl",
	"InnerMPLS":   "inner_first_mpls_label inner_first_mpls_ttl",
	"MPLSOverGRE": "outer_first_mpls_over_gre_label outer_first_mpls_over_gre_ttl",
	"MPLSOverUDP": "outer_first_mpls_over_udp_label outer_first_mpls_over_udp_ttl",
	"RegC[]":      "metadata_reg_c_#", "RegA": "metadata_reg_a",
	"InnerTCPSeq": "inner_tcp_seq_num", "OuterTCPSeq": "outer_tcp_seq_num", "InnerTCPAck": "inner_tcp_ack_num",
	"OuterTCPAck": "outer_tcp_ack_num", "VXLANGPEVNI": "outer_vxlan_gpe_vni",
	"VXLANGPEProtocol": "outer_vxlan_gpe_next_protocol", "VXLANGPEFlags": "outer_vxlan_gpe_flags",
	"ICMPHeader": "icmp_header_data", "ICMPv6Header": "icmpv6_header_data", "ICMPType": "icmp_type",
	"ICMPCode": "icmp_code", "ICMPv6Type": "icmpv6_type", "ICMPv6Code": "icmpv6_code",
	"GeneveOptionData": "geneve_tlv_option_0_data", "GTPUTEID": "gtpu_teid", "GTPUMsgType": "gtpu_msg_type",
	"GTPUMsgFlags": "gtpu_msg_flags", "GTPUWord2": "gtpu_dw_2", "GTPUExtension": "gtpu_first_ext_dw_0",
	"GTPUWord0": "gtpu_dw_0",
	"Sample[]":  "prog_sample_field_value_#", "SampleID[]": "prog_sample_field_id_#",
	"MACsec[]": "macsec_tag_#", "Tunnel[]": "tunnel_header_#",
}

// Each field of a Match is where the device's header file has it, and each field of that is in a Match.
func TestMatchPlaces(t *testing.T) {
	b, err := os.ReadFile("../testdata/mlx5/match.json")
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]map[string][2]int
	ok(t, json.Unmarshal(b, &c))
	covered := map[string]int{} // bits
	parts := reflect.TypeFor[Match]()
	new(Match).eachField(func(name string, p place, _ reflect.Value) {
		part, field, _ := strings.Cut(name, ".")
		index := ""
		if base, i, array := strings.Cut(field, "["); array {
			field, index = base+"[]", strings.TrimSuffix(i, "]")
		}
		names := strings.Fields(strings.ReplaceAll(cNames[field], "#", index))
		if len(names) == 0 {
			t.Errorf("%s has no C name", name)
			return
		}
		fields := c[cParts[part]]
		first, haveFirst := fields[names[0]]
		last, haveLast := fields[names[len(names)-1]]
		f, _ := parts.FieldByName(part)
		at, width := f.Index[0]*partSize*8+first[0], last[0]+last[1]-first[0]
		if !haveFirst || !haveLast || p.bit != at || p.width != width {
			t.Errorf("%s is at %d with %d bits, in C at %d with %d", name, p.bit, p.width, at, width)
		}
		if field != "SrcIPv4" && field != "DstIPv4" {
			covered[part] += p.width
		}
	})
	for part, name := range cParts {
		bits := 0
		for _, f := range c[name] {
			bits += f[1]
		}
		if covered[part] != bits {
			t.Errorf("%s has fields of %d bits, in C %d", part, covered[part], bits)
		}
	}
}

// The bytes of a Match, of which C gets as many parts as are needed.
func TestMatchEncode(t *testing.T) {
	m := Match{
		Outer: MatchHeaders{DstMAC: ibv.MAC{1, 2, 3, 4, 5, 6}, VLANID: 0xabc, VLANPrio: 5, IPVersion: 6,
			TCPFlags: 0x1ff,
			SrcIPv6:  [16]byte{0: 0xfd, 15: 9}, DstIPv4: [4]byte{10, 1, 2, 3}},
		Misc2: MatchMisc2{RegC: [8]uint32{0: 0x11, 7: 0x22}},
	}
	b, err := m.encode("value")
	ok(t, err)
	if len(b) != shortMatch || parts(b) != 1|1<<3 {
		t.Errorf("%d bytes, parts %b", len(b), parts(b))
	}
	want := make([]byte, shortMatch)
	copy(want[8:], []byte{1, 2, 3, 4, 5, 6, 0xaa, 0xbc, 0, 0, 0x0d, 0xff})
	want[32], want[47] = 0xfd, 9
	copy(want[60:], []byte{10, 1, 2, 3})
	want[192+16+3], want[192+44+3] = 0x22, 0x11
	if got := hex.EncodeToString(b); got != hex.EncodeToString(want) {
		t.Errorf("%s, want\n%x", got, want)
	}
	m.Misc5.Tunnel[3] = 1
	if b, err = m.encode("value"); err != nil || len(b) != 7*partSize || b[6*partSize+0x1f] != 1 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	for _, c := range []struct {
		m    Match
		want []string
	}{
		{Match{Outer: MatchHeaders{VLANID: 1 << 12}}, []string{"value.Outer.VLANID", "4096", "4095"}},
		{Match{Misc: MatchMisc{GREKeyPresent: 2}}, []string{"value.Misc.GREKeyPresent", "a field of 1 bits"}},
		{Match{Inner: MatchHeaders{SrcIPv6: [16]byte{15: 1}, SrcIPv4: [4]byte{1}}}, []string{"value.Inner.SrcIPv4",
			"one version"}},
	} {
		_, err := c.m.encode("value")
		wantError(t, err, syscall.EINVAL, c.want...)
	}
}

// A value has no bit that the mask lacks.
func TestMatchValue(t *testing.T) {
	mask := must((&Match{Outer: MatchHeaders{DSCP: 0x3c, SrcIPv4: [4]byte{255, 255}}}).encode("mask"))(t)
	v := must((&Match{Outer: MatchHeaders{DSCP: 0x24, SrcIPv4: [4]byte{10, 1}}}).valueFor(mask))(t)
	if len(v) != len(mask) || v[17] != 0x90 || v[44] != 10 {
		t.Errorf("%x", v)
	}
	if v = must((*Match)(nil).valueFor(mask))(t); !allZero(v) || len(v) != len(mask) {
		t.Errorf("no value is %x", v)
	}
	for _, c := range []struct {
		v    Match
		want string
	}{
		{Match{Outer: MatchHeaders{DSCP: 1}}, "Outer.DSCP"},
		{Match{Outer: MatchHeaders{SrcIPv4: [4]byte{10, 1, 1}}}, "Outer.SrcIPv4"},
		{Match{Misc4: MatchMisc4{SampleID: [8]uint32{3: 1}}}, "Misc4.SampleID[3]"},
	} {
		_, err := c.v.valueFor(mask)
		wantError(t, err, syscall.EINVAL, c.want, "not in the mask")
	}
}

// The bytes of changes of headers, and what is refused.
func TestHeaderActions(t *testing.T) {
	for _, c := range []struct {
		a    HeaderAction
		want string
	}{
		{SetHeader(FieldDstIPv4, 0x0a010203), "1016000000000000"[:8] + "0a010203"},
		{SetHeader(FieldUDPDstPort, 53), "100c001000000035"},
		{SetHeaderBits(FieldDSCP, 3, 2, 4), "1006020400000003"},
		{AddHeader(FieldTTL, 0xffffffff), "200a0000ffffffff"},
		{CopyHeader(FieldTCPSrcPort, FieldUDPDstPort), "300c001000080000"},
		{CopyHeader(FieldRegA, FieldSrcIPv4), "3015000000490000"},
	} {
		w := must(c.a.prm("a"))(t)
		if got := hex.EncodeToString(nativeBytes(w)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.a, got, c.want)
		}
	}
	for _, c := range []struct {
		a    []HeaderAction
		want string
	}{
		{nil, "actions is empty"},
		{[]HeaderAction{{}}, "actions[0] is empty"},
		{[]HeaderAction{SetHeader(FieldTTL, 1), SetHeader(FieldTTL, 256)}, "actions[1]"},
		{[]HeaderAction{SetHeaderBits(FieldDSCP, 0, 3, 4)}, "4 bits from bit 3"},
		{[]HeaderAction{SetHeaderBits(FieldDSCP, 4, 0, 2)}, "the limit of a field of 2 bits (3)"},
		{[]HeaderAction{SetHeader(0, 0)}, "fields 0"},
		{[]HeaderAction{CopyHeader(FieldTTL, 0)}, "fields 10 and 0"},
	} {
		_, err := headerActions(c.a)
		wantError(t, err, syscall.EINVAL, c.want)
	}
	for _, c := range []struct {
		way  Reformat
		n    int
		want string
	}{
		{4, 0, "Reformat(4)"}, {ReformatL2FromTunnel, 1, "empty"}, {ReformatL3FromTunnel, 15, "14 or 18"},
		{ReformatL2ToTunnel, 13, "14 bytes or more"}, {ReformatL3ToTunnel, 0, "14 bytes or more"},
	} {
		wantError(t, c.way.check(make([]byte, c.n)), syscall.EINVAL, c.want)
	}
}

func TestSteeringNames(t *testing.T) {
	for got, want := range map[string]string{
		TableNICRx.String(): "NICRx", TableRDMATransportTx.String(): "RDMATransportTx",
		FlowTable(7).String():       "FlowTable(7)",
		ReformatL3ToTunnel.String(): "L3ToTunnel", Reformat(9).String(): "Reformat(9)",
		DRDomainFDB.String(): "FDB", DRDomainType(3).String(): "DRDomainType(3)",
		(DRSyncSoftware | DRSyncMemory | 8).String(): "Software|Memory|0x8",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
