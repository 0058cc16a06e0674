package abi

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"structs"
	"testing"
)

const testdata = "../../testdata/abi"

// versions whose layouts are on file, oldest first, and the last of each
// architecture.
var versions = []string{"v17", "v25", "v44", "v44-arm64", "v65", "v65-arm64"}

// newest is the release that the mirrors mirror.
const newest = "v65"

type (
	layout  map[string]*cStruct
	cStruct struct {
		Size   int
		Align  int
		Fields map[string]cField
	}
	cField [2]int // offset, size
)

func readLayout(t testing.TB, version string) layout {
	t.Helper()
	var l layout
	readJSON(t, "layout-"+version+".json", &l)
	return l
}

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// mirror is a Go struct and the C struct that it mirrors. Fields correspond by
// name, without regard to case and underscores.
type mirror struct {
	c       string
	t       reflect.Type
	part    bool              // ends where the mutex is
	renamed map[string]string // C names of Go fields
	ignored []string          // C fields without a Go field: members of unions, private ones
	align   int               // if less than C's
}

func m[T any](c string) mirror { return mirror{c: c, t: reflect.TypeFor[T]()} }

func mirrors() []mirror {
	part := func(m mirror) mirror { m.part = true; return m }
	gid := m[GID]("union ibv_gid")
	gid.align = 1
	gid.ignored = []string{"raw", "global"}
	device := m[Device]("struct ibv_device")
	device.ignored = []string{"_ops"}
	event := m[AsyncEvent]("struct ibv_async_event")
	wc := m[WC]("struct ibv_wc")
	wc.ignored = []string{"invalidated_rkey"}
	send := m[SendWR]("struct ibv_send_wr")
	send.renamed = map[string]string{"XRCRemoteSRQN": "qp_type", "Bind": "bind_mw"}
	send.ignored = []string{"invalidate_rkey", "tso"}
	flowAction := m[MLX5DVFlowActionAttr]("struct mlx5dv_flow_action_attr")
	flowAction.renamed = map[string]string{"Value": "action", "Offset": "bulk_obj.offset"}
	flowAction.ignored = []string{"qp", "counter", "tag_value", "obj", "bulk_obj", "bulk_obj.obj"}
	destAttr := m[MLX5DVDRActionDestAttr]("struct mlx5dv_dr_action_dest_attr")
	destAttr.ignored = []string{"dest_reformat"}
	dc := m[MLX5DVDCInitAttr]("struct mlx5dv_dc_init_attr")
	dc.ignored = []string{"dci_streams"}
	mkeyErr := m[MLX5DVMkeyErr]("struct mlx5dv_mkey_err")
	mkeyErr.ignored = []string{"err.sig"}
	domain := m[MLX5DVSigBlockDomain]("struct mlx5dv_sig_block_domain")
	domain.ignored = []string{"sig.dif", "sig.crc"}
	return []mirror{
		gid, device, event, wc, send,
		part(m[Context]("struct ibv_context")),
		part(m[CQ]("struct ibv_cq")),
		part(m[QP]("struct ibv_qp")),
		part(m[SRQ]("struct ibv_srq")),
		part(m[WQ]("struct ibv_wq")),
		m[AH]("struct ibv_ah"),
		m[AHAttr]("struct ibv_ah_attr"),
		m[AllocDMAttr]("struct ibv_alloc_dm_attr"),
		m[CompChannel]("struct ibv_comp_channel"),
		m[CQInitAttrEx]("struct ibv_cq_init_attr_ex"),
		m[CQModerationCaps]("struct ibv_cq_moderation_caps"),
		m[DataBuf]("struct ibv_data_buf"),
		m[DeviceAttr]("struct ibv_device_attr"),
		m[DeviceAttrEx]("struct ibv_device_attr_ex"),
		m[DM]("struct ibv_dm"),
		m[ECE]("struct ibv_ece"),
		m[GIDEntry]("struct ibv_gid_entry"),
		m[GlobalRoute]("struct ibv_global_route"),
		m[GRH]("struct ibv_grh"),
		m[ModerateCQ]("struct ibv_moderate_cq"),
		m[ModifyCQAttr]("struct ibv_modify_cq_attr"),
		m[MR]("struct ibv_mr"),
		m[MRInitAttr]("struct ibv_mr_init_attr"),
		m[DMAHInitAttr]("struct ibv_dmah_init_attr"),
		m[MW]("struct ibv_mw"),
		m[MWBind]("struct ibv_mw_bind"),
		m[MWBindInfo]("struct ibv_mw_bind_info"),
		m[ODPCaps]("struct ibv_odp_caps"),
		m[PacketPacingCaps]("struct ibv_packet_pacing_caps"),
		m[ParentDomainInitAttr]("struct ibv_parent_domain_init_attr"),
		m[PciAtomicCaps]("struct ibv_pci_atomic_caps"),
		m[PD]("struct ibv_pd"),
		m[PollCQAttr]("struct ibv_poll_cq_attr"),
		m[PortAttr]("struct ibv_port_attr"),
		m[QPAttr]("struct ibv_qp_attr"),
		m[QPCap]("struct ibv_qp_cap"),
		m[QPInitAttr]("struct ibv_qp_init_attr"),
		m[QPInitAttrEx]("struct ibv_qp_init_attr_ex"),
		m[QPRateLimitAttr]("struct ibv_qp_rate_limit_attr"),
		m[QueryDeviceExInput]("struct ibv_query_device_ex_input"),
		m[RecvWR]("struct ibv_recv_wr"),
		m[RSSCaps]("struct ibv_rss_caps"),
		m[RxHashConf]("struct ibv_rx_hash_conf"),
		m[RWQIndTable]("struct ibv_rwq_ind_table"),
		m[RWQIndTableInitAttr]("struct ibv_rwq_ind_table_init_attr"),
		m[WQAttr]("struct ibv_wq_attr"),
		m[WQInitAttr]("struct ibv_wq_init_attr"),
		m[MLX5DVPP]("struct mlx5dv_pp"),
		m[MLX5DVRWQ]("struct mlx5dv_rwq"),
		m[MLX5DVSchedAttr]("struct mlx5dv_sched_attr"),
		m[MLX5DVStridingRQInitAttr]("struct mlx5dv_striding_rq_init_attr"),
		m[MLX5DVWQInitAttr]("struct mlx5dv_wq_init_attr"),
		m[SGE]("struct ibv_sge"),
		m[SRQAttr]("struct ibv_srq_attr"),
		m[SRQInitAttr]("struct ibv_srq_init_attr"),
		m[SRQInitAttrEx]("struct ibv_srq_init_attr_ex"),
		m[FlowActionESPAttr]("struct ibv_flow_action_esp_attr"),
		m[FlowAttr]("struct ibv_flow_attr"),
		m[FlowEthFilter]("struct ibv_flow_eth_filter"),
		m[FlowIPv4Filter]("struct ibv_flow_ipv4_filter"),
		m[FlowIPv4ExtFilter]("struct ibv_flow_ipv4_ext_filter"),
		m[FlowIPv6Filter]("struct ibv_flow_ipv6_filter"),
		m[FlowTCPUDPFilter]("struct ibv_flow_tcp_udp_filter"),
		m[FlowESPFilter]("struct ibv_flow_esp_filter"),
		m[FlowTunnelFilter]("struct ibv_flow_tunnel_filter"),
		m[FlowGREFilter]("struct ibv_flow_gre_filter"),
		m[FlowMPLSFilter]("struct ibv_flow_mpls_filter"),
		m[FlowSpecEth]("struct ibv_flow_spec_eth"),
		m[FlowSpecIPv4]("struct ibv_flow_spec_ipv4"),
		m[FlowSpecIPv4Ext]("struct ibv_flow_spec_ipv4_ext"),
		m[FlowSpecIPv6]("struct ibv_flow_spec_ipv6"),
		m[FlowSpecTCPUDP]("struct ibv_flow_spec_tcp_udp"),
		m[FlowSpecESP]("struct ibv_flow_spec_esp"),
		m[FlowSpecTunnel]("struct ibv_flow_spec_tunnel"),
		m[FlowSpecGRE]("struct ibv_flow_spec_gre"),
		m[FlowSpecMPLS]("struct ibv_flow_spec_mpls"),
		m[FlowSpecActionTag]("struct ibv_flow_spec_action_tag"),
		m[FlowSpecActionDrop]("struct ibv_flow_spec_action_drop"),
		m[FlowSpecActionHandle]("struct ibv_flow_spec_action_handle"),
		m[FlowSpecCounterAction]("struct ibv_flow_spec_counter_action"),
		m[CountersInitAttr]("struct ibv_counters_init_attr"),
		m[CounterAttachAttr]("struct ibv_counter_attach_attr"),
		m[CompCntrCaps]("struct ibv_comp_cntr_caps"),
		m[CompCntrInitAttr]("struct ibv_comp_cntr_init_attr"),
		m[QPAttachCompCntrAttr]("struct ibv_qp_attach_comp_cntr_attr"),
		m[FlowActionESP]("struct ib_uverbs_flow_action_esp"),
		m[ESPKeymatAESGCM]("struct ib_uverbs_flow_action_esp_keymat_aes_gcm"),
		m[ESPReplayBMP]("struct ib_uverbs_flow_action_esp_replay_bmp"),
		m[XRCD]("struct ibv_xrcd"),
		m[XRCDInitAttr]("struct ibv_xrcd_init_attr"),
		m[QPOpenAttr]("struct ibv_qp_open_attr"),
		m[OpsWR]("struct ibv_ops_wr"),
		m[TD]("struct ibv_td"),
		m[TDInitAttr]("struct ibv_td_init_attr"),
		m[TMCap]("struct ibv_tm_cap"),
		m[TMCaps]("struct ibv_tm_caps"),
		m[TSOCaps]("struct ibv_tso_caps"),
		m[ValuesEx]("struct ibv_values_ex"),
		m[WCTMInfo]("struct ibv_wc_tm_info"),
		m[MLX5DVObj]("struct mlx5dv_obj"),
		m[MLX5DVQP]("struct mlx5dv_qp"),
		m[MLX5DVCQ]("struct mlx5dv_cq"),
		m[MLX5DVSRQ]("struct mlx5dv_srq"),
		m[MLX5DVAH]("struct mlx5dv_ah"),
		m[MLX5DVPD]("struct mlx5dv_pd"),
		m[MLX5DVCQECompCaps]("struct mlx5dv_cqe_comp_caps"),
		m[MLX5DVSWParsingCaps]("struct mlx5dv_sw_parsing_caps"),
		m[MLX5DVStridingRQCaps]("struct mlx5dv_striding_rq_caps"),
		m[MLX5DVSigCaps]("struct mlx5dv_sig_caps"),
		m[MLX5DVDCIStreamsCaps]("struct mlx5dv_dci_streams_caps"),
		m[MLX5DVCryptoCaps]("struct mlx5dv_crypto_caps"),
		m[MLX5IBUAPIReg]("struct mlx5_ib_uapi_reg"),
		m[MLX5DVOOORecvWRsCaps]("struct mlx5dv_ooo_recv_wrs_caps"),
		m[MLX5DVContext]("struct mlx5dv_context"),
		m[MLX5DVCQInitAttr]("struct mlx5dv_cq_init_attr"),
		m[MLX5DVQPInitAttr]("struct mlx5dv_qp_init_attr"),
		m[MLX5DVQPEx]("struct mlx5dv_qp_ex"),
		m[MLX5DVAllocDMAttr]("struct mlx5dv_alloc_dm_attr"),
		m[MLX5DVFlowMatcherAttr]("struct mlx5dv_flow_matcher_attr"),
		flowAction, destAttr,
		m[MLX5DVFlowActionESP]("struct mlx5dv_flow_action_esp"),
		m[MLX5DVSteeringAnchorAttr]("struct mlx5dv_steering_anchor_attr"),
		m[MLX5DVDRMatcherLayout]("struct mlx5dv_dr_matcher_layout"),
		m[MLX5DVDRFlowMeterAttr]("struct mlx5dv_dr_flow_meter_attr"),
		m[MLX5DVDRFlowSamplerAttr]("struct mlx5dv_dr_flow_sampler_attr"),
		m[MLX5DVDRActionDestReformat]("struct mlx5dv_dr_action_dest_reformat"),
		m[MLX5DVClockInfo]("struct mlx5dv_clock_info"),
		m[MLX5DVDevXUAR]("struct mlx5dv_devx_uar"),
		m[MLX5DVDevXUmemIn]("struct mlx5dv_devx_umem_in"),
		m[MLX5DVVAR]("struct mlx5dv_var"),
		m[MLX5DVCtxAllocators]("struct mlx5dv_ctx_allocators"),
		m[MLX5DVContextAttr]("struct mlx5dv_context_attr"),
		m[EFADVDeviceAttr]("struct efadv_device_attr"),
		m[EFADVAHAttr]("struct efadv_ah_attr"),
		m[EFADVSQDepthAttr]("struct efadv_sq_depth_attr"),
		m[EFADVRQDepthAttr]("struct efadv_rq_depth_attr"),
		m[EFADVQPInitAttr]("struct efadv_qp_init_attr"),
		m[EFADVWQAttr]("struct efadv_wq_attr"),
		m[EFADVCQInitAttr]("struct efadv_cq_init_attr"),
		m[EFADVCQAttr]("struct efadv_cq_attr"),
		m[EFADVCQ]("struct efadv_cq"),
		m[EFADVMRAttr]("struct efadv_mr_attr"),
		dc,
		mkeyErr, domain,
		m[MLX5DVMkeyInitAttr]("struct mlx5dv_mkey_init_attr"),
		m[MLX5DVMkey]("struct mlx5dv_mkey"),
		m[MLX5DVMRInterleaved]("struct mlx5dv_mr_interleaved"),
		m[MLX5DVMkeyConfAttr]("struct mlx5dv_mkey_conf_attr"),
		m[MLX5DVSigT10DIF]("struct mlx5dv_sig_t10dif"),
		m[MLX5DVSigCRC]("struct mlx5dv_sig_crc"),
		m[MLX5DVSigBlockAttr]("struct mlx5dv_sig_block_attr"),
		m[MLX5DVSigErr]("struct mlx5dv_sig_err"),
		m[MLX5DVCryptoAttr]("struct mlx5dv_crypto_attr"),
		m[MLX5DVCryptoLoginAttr]("struct mlx5dv_crypto_login_attr"),
		m[MLX5DVDEKInitAttr]("struct mlx5dv_dek_init_attr"),
		m[MLX5DVDEKAttr]("struct mlx5dv_dek_attr"),
	}
}

// plain is a name without what differs between C and Go.
func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// goFields flattens a Go struct: its fields, and those of unnamed structs in it.
func (m mirror) goFields() map[string]cField {
	fields := make(map[string]cField)
	var walk func(t reflect.Type, prefix string, base uintptr)
	walk = func(t reflect.Type, prefix string, base uintptr) {
		if t.Kind() != reflect.Struct {
			return
		}
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "_" {
				continue
			}
			c := plain(f.Name)
			if r := m.renamed[f.Name]; r != "" {
				c = plain(r)
			}
			fields[prefix+c] = cField{int(base + f.Offset), int(f.Type.Size())}
			if f.Type.Kind() == reflect.Struct && f.Type.Name() == "" {
				walk(f.Type, prefix+c+".", base+f.Offset)
			}
		}
	}
	walk(m.t, "", 0)
	return fields
}

// compare lists where the mirror and a release differ. The newest release must
// have the same struct, an older one the same start of it.
func (m mirror) compare(l layout, isNewest bool) (problems []string) {
	bad := func(format string, args ...any) {
		problems = append(problems, m.c+": "+fmt.Sprintf(format, args...))
	}
	c := l[m.c]
	if c == nil {
		if isNewest {
			bad("is not in the newest release")
		}
		return problems
	}
	size := c.Size
	if m.part {
		size = c.Fields["mutex"][0]
	}
	goSize := int(m.t.Size())
	if goSize < size || isNewest && goSize != size {
		bad("the size is %d, in C %d", goSize, size)
	}
	if align := max(m.align, m.t.Align()); m.align == 0 && (align > c.Align || isNewest && align != c.Align) {
		bad("the alignment is %d, in C %d", m.t.Align(), c.Align)
	}

	goFields := m.goFields()
	inC := make(map[string]bool)
	for name, f := range c.Fields {
		if name == "reserved" { // a field of a later release lies there
			continue
		}
		inC[plain(name)] = true
		if slices.Contains(m.ignored, name) || m.part && f[0] >= size {
			continue
		}
		g, ok := goFields[plain(name)]
		switch outer, _, nested := strings.Cut(name, "."); {
		case !ok && nested && !hasNested(goFields, plain(outer)):
			// A union in C, a word in Go.
		case !ok:
			bad("%s has no Go field", name)
		case g != f:
			bad("%s is at %d with %d bytes, in C at %d with %d", name, g[0], g[1], f[0], f[1])
		}
	}
	for name, g := range goFields {
		if inC[name] {
			continue
		}
		if isNewest {
			bad("the Go field %s is not in C", name)
		}
		// A field that came later must not lie on one that was there before.
		for old, f := range c.Fields {
			if old != "reserved" && g[0] < f[0]+f[1] && f[0] < g[0]+g[1] {
				bad("the newer field %s lies on %s", name, old)
			}
		}
	}
	slices.Sort(problems)
	return problems
}

func hasNested(fields map[string]cField, outer string) bool {
	for name := range fields {
		if strings.HasPrefix(name, outer+".") {
			return true
		}
	}
	return false
}

// hostLayout lists what makes a struct unfit to be shared with C.
func hostLayout(t reflect.Type) (problems []string) {
	switch t.Kind() {
	case reflect.Struct:
		if t == reflect.TypeFor[structs.HostLayout]() {
			return nil
		}
		if t.NumField() == 0 || t.Field(0).Type != reflect.TypeFor[structs.HostLayout]() {
			problems = append(problems, t.String()+" does not begin with structs.HostLayout")
		}
		for i := range t.NumField() {
			problems = append(problems, hostLayout(t.Field(i).Type)...)
		}
	case reflect.Array:
		return hostLayout(t.Elem())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Int32, reflect.Int64, reflect.Uintptr:
	default:
		problems = append(problems, t.String()+" is not a type of fixed width")
	}
	return problems
}

func TestLayouts(t *testing.T) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			l := readLayout(t, v)
			seen := 0
			for _, m := range mirrors() {
				if l[m.c] != nil {
					seen++
				}
				for _, p := range m.compare(l, strings.HasPrefix(v, newest)) {
					t.Error(p)
				}
			}
			t.Logf("%d of %d structs are in %s", seen, len(mirrors()), v)
		})
	}
}

func TestHostLayout(t *testing.T) {
	for _, m := range mirrors() {
		for _, p := range hostLayout(m.t) {
			t.Errorf("%s: %s", m.c, p)
		}
	}
}

// TestMirrorsAreChecked finds the structs by their doc comments.
func TestMirrorsAreChecked(t *testing.T) {
	checked := make(map[string]bool)
	for _, m := range mirrors() {
		checked[m.t.Name()+" "+m.c] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources here: %v", err)
	}
	doc := regexp.MustCompile(`(?m)^// (\w+) is (?:the start of )?` +
		`((?:struct|union) (?:ibv|mlx5|ib_uverbs|efadv)\w+) \(`)
	found := 0
	for _, f := range files {
		if strings.HasPrefix(f, "rdmacm") {
			continue // TestRDMACMMirrorsAreChecked
		}
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range doc.FindAllStringSubmatch(string(src), -1) {
			found++
			if !checked[d[1]+" "+d[2]] {
				t.Errorf("%s: %s is said to mirror %s, and no test checks that", f, d[1], d[2])
			}
		}
	}
	if found != len(checked) {
		t.Errorf("%d mirrors are documented, %d checked", found, len(checked))
	}
}

// TestCheckerFindsMistakes is the control: wrong mirrors of struct ibv_sge.
func TestCheckerFindsMistakes(t *testing.T) {
	type swapped struct {
		_      structs.HostLayout
		Addr   uint64
		LKey   uint32
		Length uint32
	}
	type narrow struct {
		_      structs.HostLayout
		Addr   uint64
		Length uint16
		_      [2]byte
		LKey   uint32
	}
	type short struct {
		_      structs.HostLayout
		Addr   uint64
		Length uint32
		_      [4]byte
	}
	type long struct {
		_      structs.HostLayout
		Addr   uint64
		Length uint32
		LKey   uint32
		More   uint64
	}
	type loose struct {
		_      structs.HostLayout
		Addr   [2]uint32
		Length uint32
		LKey   uint32
	}
	type shared struct {
		Addr   uint64
		Length uint32
		LKey   *uint32
	}
	l := readLayout(t, newest)
	const sge = "struct ibv_sge"
	for _, c := range []struct {
		m    mirror
		want string
	}{
		{m[swapped](sge), "lkey is at 8 with 4 bytes, in C at 12 with 4"},
		{m[narrow](sge), "length is at 8 with 2 bytes, in C at 8 with 4"},
		{m[short](sge), "lkey has no Go field"},
		{m[long](sge), "the size is 24, in C 16"},
		{m[long](sge), "the Go field more is not in C"},
		{m[loose](sge), "the alignment is 4, in C 8"},
		{m[SGE]("struct ibv_no_such"), "is not in the newest release"},
	} {
		if got := c.m.compare(l, true); !slices.Contains(got, c.m.c+": "+c.want) {
			t.Errorf("%v: found %q, not %q", c.m.t, got, c.want)
		}
	}
	if got := hostLayout(reflect.TypeFor[shared]()); len(got) != 2 {
		t.Errorf("a struct with a pointer and without HostLayout: found %q, want two problems", got)
	}
	// A release that moved a field, and one that used a place that ours uses.
	moved := layout{sge: {Size: 16, Align: 8, Fields: map[string]cField{"addr": {0, 8}, "length": {12, 4},
		"lkey": {8, 4}}}}
	if got := m[SGE](sge).compare(moved, false); len(got) != 2 {
		t.Errorf("an older release with other offsets: found %q", got)
	}
	used := layout{sge: {Size: 16, Align: 8, Fields: map[string]cField{"addr": {0, 8}, "length": {8, 4},
		"cookie": {12, 4}}}}
	if got := m[SGE](sge).compare(used, false); !slices.Contains(got, sge+": the newer field lkey lies on cookie") {
		t.Errorf("an older release with another field: found %q", got)
	}
}
