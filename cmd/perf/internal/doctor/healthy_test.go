package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/dcb"
	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

const edr, hdr, ndr = "100 Gb/sec (4X EDR)", "200 Gb/sec (4X HDR)", "400 Gb/sec (4X NDR)"

// healthy are hosts on which all is well, in addition to one for each kind and rate. The last field is where the facts
// about such hosts are from.
var healthy = []struct {
	name   string
	source string
	parts  []part
}{
	// IPv6 and its link-local address.
	{"IPv6 off", "roce_gid_mgmt.c makes the default GID without the address", []part{nic("cx6dx",
		roce(edr, "10.0.0.1/24", off6))}},
	{"IPv6 off, RoCE v2 only", "the same", []part{nic("cx7", roce(ndr, "10.0.0.1/24", off6, onlyV2))}},
	{"stable privacy", "NetworkManager's ipv6.addr-gen-mode", []part{nic("cx6dx", roce(edr, "10.0.0.1/24", stable))}},
	{"IPv6 only", "gids.md", []part{nic("cx6dx", roce(edr, "2001:db8::1/64"))}},
	{"IPv6 off, two ports", "roce_gid_mgmt.c", []part{nic("cx5", roce(edr, "10.0.0.1/24", off6), in("0000:10:00.0")),
		nic("cx5", roce(edr, "10.0.1.1/24", off6), in("0000:10:00.1"))}},
	{"VLAN", "NVIDIA's guide: RoCE over VLAN", []part{nic("cx5", roce(edr, "10.0.0.1/24", below("vlan")))}},
	{"VLAN, IPv6 off", "the same", []part{nic("cx5", roce(edr, "10.0.0.1/24", below("vlan"), off6))}},
	{"VLAN, stable privacy", "the same", []part{nic("cx5", roce(edr, "10.0.0.1/24", below("vlan"), stable))}},
	{"VLAN with PFC by PCP", "the same: priorities of VLAN tags", []part{nic("cx5", roce(edr, "10.0.0.1/24",
		below("vlan"))), writes("class/net/eth3/qos/trust", "pcp", "class/net/eth3/qos/pfc", "0 0 0 1 0 0 0 0")}},
	{"VLAN with a small MTU", "the active MTU is that of the interface below", []part{nic("cx5",
		roce(edr, "10.0.0.1/24", below("vlan"))), writes("class/net/eth3.vlan/mtu", "1500")}},
	{"bond", "Documentation/networking/bonding", []part{nic("cx6dx", roce(edr, "10.0.0.1/24", below("bond")))}},
	{"bond, IPv6 off", "is_ndev_for_default_gid_filter", []part{nic("cx6dx", roce(edr, "10.0.0.1/24", below("bond"),
		off6))}},
	{"bond, stable privacy", "the same", []part{nic("cx6dx", roce(edr, "10.0.0.1/24", below("bond"), stable))}},
	{"macvlan", "Documentation of ip-link", []part{nic("cx6dx", roce(edr, "10.0.0.1/24", below("macvlan")))}},
	{"macvlan, IPv6 off", "the same", []part{nic("cx6dx", roce(edr, "10.0.0.1/24", below("macvlan"), off6))}},

	// Cards and slots.
	{"two ports of InfiniBand", "ConnectX-5 manual, MCX556A", []part{nic("cx5", ib(edr), in("0000:10:00.0")),
		nic("cx5", ib(edr), in("0000:10:00.1"))}},
	{"two ports of one function", "ConnectX-3 manual", []part{nic("cx3", ib("56 Gb/sec (4X FDR)"),
		ib("56 Gb/sec (4X FDR)"))}},
	{"two HDR ports", "MCX653106A: its own PCIe carries 252 Gb/s", []part{nic("cx6", ib(hdr), in("0000:10:00.0")),
		nic("cx6", ib(hdr), in("0000:10:00.1"))}},
	{"Socket Direct", "MCX654106A: one card in two slots", []part{nic("cx6", ib(hdr), slow(8, 16),
		imageGUID("0c42:a103:0000:9999")), nic("cx6", ib(hdr), slow(8, 16), imageGUID("0c42:a103:0000:9999"))}},
	{"Gen5 card in Gen4", "PCIe: compatible slots", []part{nic("cx7", ib(hdr), slow(16, 16))}},
	{"Gen5 card in Gen3", "the same", []part{nic("cx7", ib("100 Gb/sec (2X HDR)"), slow(8, 16))}},
	{"Gen6 card in Gen5", "the same", []part{nic("cx8", ib(ndr), slow(32, 16))}},
	{"25 Gb/s in eight lanes", "the same", []part{nic("cx6dx", roce("25 Gb/sec (1X EDR)", "10.0.0.1/24"), slow(8, 8))}},
	{"two 25 Gb/s in eight lanes", "the same", []part{
		nic("cx6dx", roce("25 Gb/sec (1X EDR)", "10.0.0.1/24"), slow(8, 8)),
		nic("cx6dx", roce("25 Gb/sec (1X EDR)", "10.0.1.1/24"), slow(8, 8), in("0000:10:00.1"))}},
	{"QDR in Gen2", "QDR carries 32 Gb/s of data", []part{nic("cx3", ib("40 Gb/sec (4X QDR)"), slow(5, 8))}},
	{"E810 with two ports", "E810-CQDA2 brief", []part{nic("e810", roce(edr, "10.0.0.1/24"), in("0000:10:00.0")),
		nic("e810", roce(edr, "10.0.1.1/24"), in("0000:10:00.1"))}},

	// Functions.
	{"VF of RoCE", "SR-IOV guide", []part{nic("vf", isVF, roce(edr, "10.0.0.1/24"), onNUMA(-1)), nodes(2)}},
	{"VF of InfiniBand", "SR-IOV guide", []part{nic("vf", isVF, ib(hdr))}},
	{"PF and four VFs", "SR-IOV guide", []part{nic("cx6", ib(hdr), in("0000:10:00.0")), each(4, func(i int) part {
		return nic("vf", isVF, ib(hdr), in(fmt.Sprintf("0000:10:00.%d", i+1)))
	})}},
	{"SF", "Documentation/networking/devlink/devlink-port", []part{nic("bf3", isSF, roce(hdr, "10.0.0.1/24"))}},
	{"PF and two SFs", "the same", []part{nic("cx7", roce(ndr, "10.0.0.1/24"), in("0000:10:00.0")),
		nic("cx7", isSF, roce(ndr, "10.0.1.1/24"), in("0000:10:00.0")),
		nic("cx7", isSF, roce(ndr, "10.0.2.1/24"), in("0000:10:00.0"))}},

	// Many adapters.
	{"storage next to compute, other boards", "DGX H100 guide", []part{
		each(8, func(int) part { return nic("cx7", ib(ndr), board("MT_0000000838")) }),
		each(2, func(int) part { return nic("cx7", ib(hdr), board("MT_0000000834")) })}},
	{"storage next to compute, other layers", "DGX A100 guide", []part{
		each(8, func(int) part { return nic("cx6", ib(hdr)) }),
		each(2, func(i int) part { return nic("cx6", roce(edr, fmt.Sprintf("10.0.%d.1/24", i))) })}},
	{"storage next to compute, another fabric", "rails with a subnet manager each", []part{
		each(4, func(int) part { return nic("cx7", ib(ndr)) }), nic("cx7", ib(hdr, subnet(77)))}},
	{"storage next to compute, another subnet", "rail-optimized RoCE", []part{
		each(4, func(i int) part { return nic("cx7", roce(ndr, fmt.Sprintf("10.0.%d.1/31", i))) }),
		nic("cx7", roce(hdr, "10.9.0.1/24"))}},
	{"management at 25 Gb/s", "the same", []part{nic("cx6dx", roce(edr, "10.0.0.1/24")),
		nic("cx6dx", roce("25 Gb/sec (1X EDR)", "192.168.0.2/24"))}},
	{"eight rails", "HGX B200", []part{each(8, func(int) part { return nic("cx8", ib("800 Gb/sec (4X XDR)")) })}},
	{"BlueField-3 next to ConnectX-7", "HGX H100", []part{each(4, func(int) part { return nic("cx7", ib(ndr)) }),
		nic("bf3", roce(hdr, "10.0.0.1/24"))}},

	// Kernels, partitions, other vendors.
	{"NDR on Linux 5.4", "IB_SPEED_NDR is newer: rate_show prints SDR", []part{nic("cx7", ib("10 Gb/sec (4X SDR)")),
		proc("sys/kernel/osrelease", "5.4.0\n")}},
	{"XDR on Linux 5.15", "the same for IB_SPEED_XDR", []part{nic("cx8", ib("10 Gb/sec (4X SDR)")),
		proc("sys/kernel/osrelease", "5.15.0-91-generic\n")}},
	{"two partitions", "opensm's partitions.conf", []part{nic("cx6", ib(hdr, keys("0xffff", "0x8005")))}},
	{"a partition of a tenant", "UFM", []part{nic("cx6", ib(hdr, keys("0x8005", "0x7fff", "0x0000")))}},
	{"limited to the default partition", "UFM", []part{nic("cx6", ib(hdr, keys("0x7fff", "0x8005")))}},
	{"siw with a filter", "iWARP is TCP", []part{plain("iwarp", "2.5 Gb/sec (1X SDR)", "soft"),
		also(func(b *bed) { b.Rules = ruleset("type filter hook input priority 0; policy drop;") })}},
	{"rxe with 300 addresses", "RXE_PORT_GID_TBL_LEN is 1024", []part{nic("soft", roce("2.5 Gb/sec (1X SDR)",
		"10.0.0.1/24")), also(func(b *bed) { b.tree.GID("mlx5_0", 1, 300, long("10.0.0.1"), sysfstest.V2, "eth3") })}},
	{"mana on two nodes", "Azure: the hypervisor has the link", []part{nic("mana", roce(edr, "10.0.0.1/24"),
		onNUMA(-1)), nodes(2)}},
	{"four EFAs", "p4d.24xlarge", []part{each(4, func(int) part { return plain("efa", edr, "efa") })}},
	{"hns", "rdma-core's hns: integrated", []part{nic("hns", roce(edr, "10.0.0.1/24")),
		nic("hns", roce(edr, "10.0.1.1/24"), in("0000:10:00.1"))}},
	{"PFC by the DSCP", "Documentation of dcb", []part{nic("cx7", roce(ndr, "10.0.0.1/24")), also(func(b *bed) {
		b.port = map[string]*dcb.Port{"eth3": {PFC: &dcb.PFC{Enabled: 8}, Apps: marks()}}
	})}},
	{"IOMMU passed through", "Documentation/admin-guide", []part{nic("cx6", ib(hdr)), writes("class/iommu/dmar0/a", "",
		"kernel/iommu_groups/12/type", "identity"), also(func(b *bed) {
		b.tree.Symlink("../../../kernel/iommu_groups/12", "devices/pci0000:00/0000:10:00.0/iommu_group")
	})}},
	{"two NUMA nodes", "sysfs-devices-node", []part{nic("cx6", ib(hdr), onNUMA(1)), nodes(2)}},
	{"link went down once", "a reboot of the switch", []part{nic("cx6", ib(hdr, count("link_downed", 1)))}},
	{"jumbo frames off", "1500 bytes make 1024", []part{nic("cx6dx", roce(edr, "10.0.0.1/24", frame(1500)))}},

	// Containers.
	{"container with all devices", "k8s-rdma-shared-dev-plugin", []part{nic("cx6dx", roce(edr, "10.0.0.1/24", off6)),
		given("uverbs0")}},
	{"container with one of four", "the same", []part{each(4, func(i int) part {
		return nic("cx7", roce(ndr, fmt.Sprintf("10.0.%d.1/24", i)))
	}), given("uverbs0")}},
	{"container with a VF", "sriov-network-device-plugin", []part{nic("vf", isVF, roce(edr, "10.0.0.1/24", off6)),
		given("uverbs0"), without("class/infiniband/mlx5_0/ports/1/counters")}},
	{"container with users of its own", "rootless Podman", []part{nic("cx6", ib(hdr)), given("uverbs0"),
		proc("self/uid_map", "0 1000 65536\n")}},
}

// alarms returns the warnings and errors of a host.
func alarms(w *world) (out []Finding) {
	for _, f := range Examine(w.Host, "rdmaperf").Findings {
		if f.Severity >= Warning {
			out = append(out, f)
		}
	}
	return out
}

// TestHealthyHosts: the doctor warns of no healthy host.
func TestHealthyHosts(t *testing.T) {
	hosts := healthy
	for _, r := range sysfstest.Rates {
		for _, of := range strings.Fields(r.Kinds) {
			hosts = append(hosts, healthy[0])
			h := &hosts[len(hosts)-1]
			h.name, h.source, h.parts = of+" "+r.Layer+" "+r.Rate, "rates", []part{plain(r.Layer, r.Rate, of)}
		}
	}
	wrong := 0
	for _, h := range hosts {
		if h.source == "" {
			t.Errorf("%s has no source", h.name)
		}
		if bad := alarms(newWorld(t, h.parts)); len(bad) > 0 {
			wrong++
			t.Errorf("%s (%s): %+v", h.name, h.source, bad)
		}
	}
	t.Logf("figure doctor_false_alarms %d of_%d_healthy_hosts", wrong, len(hosts))
	if len(hosts) < 60 {
		t.Errorf("%d hosts, want 60 or more", len(hosts))
	}
}

// TestLanes: each speed with each number of lanes, on Ethernet and on InfiniBand. Lanes are missing only if no
// link of InfiniBand has so few.
func TestLanes(t *testing.T) {
	deci := map[string]int{"SDR": 25, "DDR": 50, "QDR": 100, "FDR10": 100, "FDR": 140, "EDR": 250, "HDR": 500,
		"NDR": 1000, "XDR": 2000}
	for speed, least := range map[string]int{"SDR": 4, "DDR": 4, "QDR": 4, "FDR10": 4, "FDR": 4, "EDR": 4, "HDR": 2,
		"NDR": 2, "XDR": 2} {
		for _, n := range []int{1, 2, 4, 8, 12} {
			d := deci[speed] * n
			rate := fmt.Sprintf("%d Gb/sec (%dX %s)", d/10, n, speed)
			if d%10 != 0 {
				rate = fmt.Sprintf("%d.5 Gb/sec (%dX %s)", d/10, n, speed)
			}
			for _, p := range []part{nic("chelsi", ib(rate), slow(64, 64)), nic("chelsi", roce(rate, "10.0.0.1/24"),
				slow(64, 64))} {
				w := newWorld(t, []part{p})
				bad := alarms(w)
				devs, _ := w.Facts.Devices()
				want := devs[0].Ports[0].LinkLayer == hostfacts.InfiniBand && n < least
				got := len(bad) == 1 && bad[0].Check == "link" && strings.Contains(bad[0].Text, "lanes missing")
				if got != want || !want && len(bad) > 0 {
					t.Errorf("%s, %s: %+v, want a warning: %v", devs[0].Ports[0].LinkLayer, rate, bad, want)
				}
				if len(devs) != 1 || devs[0].Ports[0].RateBits != int64(d)*1e8 {
					t.Errorf("%+v", devs)
				}
			}
		}
	}
}
