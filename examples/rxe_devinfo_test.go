package examples

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// info is what the tests read of devinfo's JSON.
type info struct {
	Version int
	Devices []struct {
		Name               string
		NodeGUID           string `json:"node_guid"`
		SysImageGUID       string `json:"sys_image_guid"`
		Transport          string
		FirmwareVersion    string         `json:"firmware_version"`
		VendorID           int            `json:"vendor_id"`
		VendorPartID       int            `json:"vendor_part_id"`
		HWVersion          int            `json:"hw_version"`
		CompVectors        int            `json:"completion_vectors"`
		Attributes         map[string]any `json:"attributes"`
		ExtendedAttributes map[string]any `json:"extended_attributes"`
		Ports              []infoPort
		Error              string
	}
}

type infoPort struct {
	Port       int
	State      string
	PhysState  string         `json:"phys_state"`
	LinkLayer  string         `json:"link_layer"`
	MaxMTU     int            `json:"max_mtu_bytes"`
	ActiveMTU  int            `json:"active_mtu_bytes"`
	LID        int            `json:"lid"`
	SMLID      int            `json:"sm_lid"`
	LMC        int            `json:"lmc"`
	Attributes map[string]any `json:"attributes"`
	GIDs       []struct {
		Index             int
		GID, Type, Netdev string
	} `json:"gids"`
	PKeys []struct {
		Index int
		PKey  string `json:"pkey"`
	} `json:"pkeys"`
}

// stockLine is a line of ibv_devinfo -v: "max_qp:   64".
var stockLine = regexp.MustCompile(`^\s*([a-z_0-9]+):\s+(.*)$`)

// number reads an integer, decimal or hex, that may be followed by more.
func number(t *testing.T, s string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.Fields(s)[0], 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return float64(n)
}

// inParens is the code in "PORT_ACTIVE (4)", or the number without it.
func inParens(s string) string {
	if i := strings.Index(s, " ("); i >= 0 {
		return s[:i]
	}
	return s
}

// TestRXEDevinfo compares with what the stock ibv_devinfo says.
func TestRXEDevinfo(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	var all info
	if err := json.Unmarshal([]byte(output(t, "devinfo", "--json")), &all); err != nil {
		t.Fatal(err)
	}
	if all.Version != 1 || len(all.Devices) != len(rxe.Dev) {
		t.Fatalf("version %d, %d devices", all.Version, len(all.Devices))
	}
	for _, d := range all.Devices {
		if !slices.Contains(rxe.Dev[:], d.Name) {
			t.Errorf("a device %q", d.Name)
		}
		t.Run(d.Name, func(t *testing.T) {
			stock := map[string]string{}
			for _, line := range strings.Split(output(t, "ibv_devinfo", "-v", "-d", d.Name), "\n") {
				// The first of a name counts: tag matching has a max_sge, too.
				if m := stockLine.FindStringSubmatch(line); m != nil && stock[m[1]] == "" {
					stock[m[1]] = m[2]
				}
			}
			if len(d.Ports) != 1 || d.Error != "" {
				t.Fatalf("%d ports, error %q", len(d.Ports), d.Error)
			}
			p := d.Ports[0]
			compared := 0
			same := func(key string, ours any) {
				t.Helper()
				s, ok := stock[key]
				if !ok {
					t.Errorf("ibv_devinfo does not tell %s", key)
					return
				}
				compared++
				if got, want := fmt.Sprint(ours), inParens(s); got != want {
					t.Errorf("%s: %s, ibv_devinfo says %s", key, got, want)
				}
			}
			sameNumber := func(key string, ours any) {
				t.Helper()
				s, ok := stock[key]
				if !ok {
					t.Errorf("ibv_devinfo does not tell %s", key)
					return
				}
				compared++
				var got float64
				switch v := ours.(type) {
				case int:
					got = float64(v)
				case float64:
					got = v
				case string:
					got = number(t, v)
				default:
					t.Errorf("%s: %v is no number", key, ours)
					return
				}
				if got != number(t, s) {
					t.Errorf("%s: %v, ibv_devinfo says %s", key, ours, s)
				}
			}
			same("node_guid", d.NodeGUID)
			same("sys_image_guid", d.SysImageGUID)
			sameNumber("vendor_id", d.VendorID)
			sameNumber("vendor_part_id", d.VendorPartID)
			sameNumber("hw_ver", d.HWVersion)
			if _, ok := stock["num_comp_vectors"]; ok { // since v35
				sameNumber("num_comp_vectors", d.CompVectors)
			}
			if s, ok := stock["fw_ver"]; ok && s != d.FirmwareVersion || !ok && d.FirmwareVersion != "" {
				t.Errorf("firmware %q, ibv_devinfo says %q", d.FirmwareVersion, s)
			}
			for ours, theirs := range map[string]string{"max_mr_bytes": "max_mr_size",
				"page_size_caps": "page_size_cap"} {
				sameNumber(theirs, d.Attributes[ours])
			}
			for _, key := range []string{
				"max_qp", "max_qp_wr", "device_cap_flags", "max_sge", "max_sge_rd", "max_cq", "max_cqe",
				"max_mr", "max_pd",
				"max_qp_rd_atom", "max_res_rd_atom", "max_qp_init_rd_atom", "max_mw", "max_raw_ethy_qp",
				"max_mcast_grp",
				"max_mcast_qp_attach", "max_total_mcast_qp_attach", "max_ah", "max_srq", "max_srq_wr",
				"max_srq_sge", "max_pkeys",
				"local_ca_ack_delay", "phys_port_cnt",
			} {
				sameNumber(key, d.Attributes[key])
			}
			if want := map[string]string{"None": "ATOMIC_NONE", "HCA": "ATOMIC_HCA",
				"Glob": "ATOMIC_GLOB"}[fmt.Sprint(d.Attributes["atomic_cap"])]; want != inParens(stock["atomic_cap"]) {
				t.Errorf("atomics: %v, ibv_devinfo says %s", d.Attributes["atomic_cap"], stock["atomic_cap"])
			}
			sameNumber("device_cap_flags_ex", d.ExtendedAttributes["device_cap_flags_ex"])
			sameNumber("max_wq_type_rq", d.ExtendedAttributes["max_wq_type_rq"])

			sameNumber("port", p.Port)
			if want := "PORT_" + strings.ToUpper(p.State); want != inParens(stock["state"]) {
				t.Errorf("state %s, ibv_devinfo says %s", p.State, stock["state"])
			}
			same("max_mtu", p.MaxMTU)
			same("active_mtu", p.ActiveMTU)
			same("link_layer", p.LinkLayer)
			sameNumber("sm_lid", p.SMLID)
			sameNumber("port_lid", p.LID)
			sameNumber("port_lmc", p.LMC)
			for ours, theirs := range map[string]string{
				"max_message_bytes": "max_msg_sz", "port_cap_flags": "port_cap_flags",
				"port_cap_flags2":  "port_cap_flags2",
				"bad_pkey_counter": "bad_pkey_cntr", "qkey_violation_counter": "qkey_viol_cntr", "sm_sl": "sm_sl",
				"pkey_table_length": "pkey_tbl_len", "gid_table_length": "gid_tbl_len",
				"subnet_timeout":  "subnet_timeout",
				"init_type_reply": "init_type_reply",
			} {
				sameNumber(theirs, p.Attributes[ours])
			}
			if compared < 45 {
				t.Errorf("only %d values compared", compared)
			}
		})
	}
}

// TestRXEDevinfo_GIDs compares the GID table with sysfs, by way of the stock tool.
func TestRXEDevinfo_GIDs(t *testing.T) {
	rxe := testutil.NeedLogic(t)
	for i, dev := range rxe.Dev {
		var one info
		if err := json.Unmarshal([]byte(output(t, "devinfo", "--json", "-d", dev, "-i", "1")), &one); err != nil {
			t.Fatal(err)
		}
		if len(one.Devices) != 1 || one.Devices[0].Name != dev || len(one.Devices[0].Ports) != 1 {
			t.Fatalf("-d %s: %+v", dev, one)
		}
		var ours, stock []string
		for _, g := range one.Devices[0].Ports[0].GIDs {
			ours = append(ours, fmt.Sprintf("%d %s", g.Index, g.GID))
			if want := (g.Type == "RoCEv2" || rxe.Emulated) && strings.HasPrefix(g.Netdev, rxe.Net[i]); !want {
				t.Errorf("%s gid %d: %s on %s", dev, g.Index, g.Type, g.Netdev)
			}
		}
		re := regexp.MustCompile(`GID\[\s*(\d+)\]:\s+([0-9a-f:.]+)`)
		for _, m := range re.FindAllStringSubmatch(output(t, "ibv_devinfo", "-v", "-d", dev), -1) {
			stock = append(stock, m[1]+" "+netip.MustParseAddr(m[2]).String()) // it writes RoCE v1's in full
		}
		if len(ours) < 2 || strings.Join(ours, "\n") != strings.Join(stock, "\n") {
			t.Errorf("%s: GIDs\n%s\nibv_devinfo says\n%s", dev, strings.Join(ours, "\n"), strings.Join(stock, "\n"))
		}
		if k := one.Devices[0].Ports[0].PKeys; len(k) != 1 || k[0].Index != 0 || k[0].PKey != "0xffff" {
			t.Errorf("%s: pkeys %v", dev, k)
		}
	}
}

// TestRXEDevinfo_Tree looks at the text output.
func TestRXEDevinfo_Tree(t *testing.T) {
	rxe := testutil.NeedLogic(t)
	short, long := output(t, "devinfo"), output(t, "devinfo", "-v")
	for i, dev := range rxe.Dev {
		for _, want := range []string{"\n" + dev + "\n", "::ffff:" + rxe.IP[i] + " "} {
			if !strings.Contains("\n"+short, want) || !strings.Contains("\n"+long, want) {
				t.Errorf("no %q in\n%s", want, short)
			}
		}
	}
	if strings.Contains(short, "max_qp_wr") || !strings.Contains(long, "max_qp_wr") {
		t.Error("-v should be what makes it long")
	}
	if got := output(t, "devinfo", "-l"); got != rxe.Dev[0]+"\n"+rxe.Dev[1]+"\n" &&
		got != rxe.Dev[1]+"\n"+rxe.Dev[0]+"\n" {
		t.Errorf("-l says %q", got)
	}
	launch(t, "devinfo", "-d", "rxe9").fails("rxe9", rxe.Dev[0])
	launch(t, "devinfo", "-d", rxe.Dev[0], "-i", "2").fails("has 1 ports")
}
