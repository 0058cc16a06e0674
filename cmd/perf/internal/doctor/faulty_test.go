package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
	"github.com/pureverbs/pureverbs/loader"
)

// faulty is a host with one fault, and what the doctor must say of it.
type faulty struct {
	name         string
	severity     Severity
	check        string
	text, remedy string // parts of text or evidence, and of the remedy
	parts        []part
}

// Healthy hosts, to which faults are added.
var (
	oneRoCE = nic("cx6dx", roce(edr, "10.0.0.1/24"))
	oneIB   = nic("cx6", ib(hdr))
)

// function puts an adapter on PCI that has no RDMA device.
func function(vendor, device string) part {
	return writes("bus/pci/devices/0000:41:00.0/vendor", vendor, "bus/pci/devices/0000:41:00.0/device", device,
		"bus/pci/devices/0000:41:00.0/class", "0x020000")
}

// unlistedBy has libibverbs leave out the device, whose provider is loaded once libibverbs has been asked.
func unlistedBy(driver, provider string) part {
	return also(func(b *bed) {
		asked := false
		b.Unlisted = func() error {
			asked = true
			return &ibv.UnlistedError{Devices: []ibv.UnlistedDevice{{Name: "mlx5_0", Driver: driver,
				Reason: "it is older than this card"}}}
		}
		b.Load = func() *loader.Info {
			b.info.Install = "dnf install libibverbs"
			b.info.Providers = []loader.Provider{{Name: provider, Path: "/p", Loaded: asked}}
			return &b.info
		}
	})
}

func refused(file string, err error) part {
	return also(func(b *bed) { b.Access = denied(file, err) })
}

var faults = []faulty{
	// GIDs.
	{"a pod's GID", Warning, "gid", "no interface here has the addresses of 1 of 5 GIDs", "show_gids --up -d mlx5_0",
		[]part{oneRoCE, foreign("10.0.0.9", "eth3")}},
	{"a pod's GID, IPv6 off", Warning, "gid", "the addresses of 1 of 5 GIDs", "show_gids --up",
		[]part{nic("cx6dx", roce(edr, "10.0.0.1/24", off6)), foreign("10.0.0.9", "eth3")}},
	{"a pod's default GID", Warning, "gid", "the addresses of 1 of 5 GIDs", "show_gids --up",
		[]part{oneRoCE, foreign(byMAC("0c:42:a1:77:77:77"), "eth3")}},
	{"a pod's GID on an interface that is not here", Warning, "gid", "the addresses of 1 of 5 GIDs", "show_gids --up",
		[]part{oneRoCE, foreign(byMAC("0c:42:a1:77:77:77"), "net1")}},
	{"a pod's GID next to a VLAN", Warning, "gid", "the addresses of 1 of 7 GIDs", "show_gids --up",
		[]part{nic("cx6dx", roce(edr, "10.0.0.1/24", below("vlan"))), foreign("10.0.0.9", "eth3.vlan")}},
	{"a pod's GID next to a bond", Warning, "gid", "the addresses of 1 of 5 GIDs", "show_gids --up",
		[]part{nic("cx6dx", roce(edr, "10.0.0.1/24", below("bond"), off6)), foreign("10.0.0.9", "bondeth3")}},
	{"a pod's GID next to a macvlan", Warning, "gid", "the addresses of 1 of 9 GIDs", "show_gids --up",
		[]part{nic("cx6dx", roce(edr, "10.0.0.1/24", below("macvlan"), stable)), foreign("10.0.0.9", "eth3.macvlan")}},
	{"all GIDs are of pods", Error, "gid", "no GID can be used: no interface here has this address", "ip addr    #",
		[]part{nic("cx6dx", roce(edr, "", noGIDs)), foreign("10.0.0.9", "net1")}},
	{"no address", Warning, "gid", "is RoCE v1", "ip addr add ADDRESS/PREFIX dev eth3",
		[]part{nic("cx6dx", roce(edr, "", off6))}},
	{"no address, RoCE v2 only", Error, "gid", "the kernel made the GID from the interface's MAC",
		"ip addr add ADDRESS/PREFIX dev eth3", []part{nic("cx6dx", roce(edr, "", off6, onlyV2))}},
	{"RoCE v1 only", Warning, "gid", "is RoCE v1", "roce_enable", []part{nic("cx6dx", roce(edr, "10.0.0.1/24",
		onlyV1))}},
	{"link-local only", Warning, "gid", "is link-local", "ip addr add ADDRESS/PREFIX dev eth3",
		[]part{nic("cx6dx", roce(edr, ""))}},
	{"empty table", Error, "gid", "the GID table is empty", "ip addr add", []part{nic("cx6dx", roce(edr, "", noGIDs))}},
	{"empty table of InfiniBand", Error, "gid", "the GID table is empty", "opensm", []part{nic("cx6", ib(hdr,
		noGIDs))}},
	{"only high indexes", Error, "gid", "no GID can be used: index above 255", "show_gids --why",
		[]part{nic("soft", roce("10 Gb/sec (1X FDR10)", "10.0.0.1/24", off6, onlyV2, from(300))),
			without("class/infiniband/mlx5_0/ports/1/gids/0")}},
	{"a duplicate address", Error, "gid", "another host has this address", "show_gids --why", []part{nic("cx6dx",
		roce(edr, "2001:db8::1/64 dadfailed tentative", off6, onlyV2)),
		without("class/infiniband/mlx5_0/ports/1/gids/0")}},
	{"unreadable table", Error, "gid", "the GID table cannot be read", "ls -l", []part{oneIB,
		without("class/infiniband/mlx5_0/ports/1/gids")}},
	{"an unreadable class", Error, "device", "infiniband: not a directory", "ls -l", []part{without("class/infiniband"),
		writes("class/infiniband", "nonsense")}},
	{"unreadable entries", Error, "gid", "the GID table cannot be read", "ls -l", []part{oneIB,
		writes("class/infiniband/mlx5_0/ports/1/gids/0", "nonsense")}},
	{"rdma_cm by RoCE v1", Warning, "roce", "rdma_cm connects by IB/RoCE v1", "cma_roce_mode -d mlx5_0 -p 1 -m 2",
		[]part{oneRoCE, writes("kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode", "IB/RoCE v1")}},

	// Links.
	{"EDR, one lane", Warning, "link", "25 Gb/sec (1X EDR), with lanes missing", "mlxlink -d 0000:11:00.0 -p 1",
		[]part{nic("cx5", ib(edr)), nic("cx5", ib("25 Gb/sec (1X EDR)"))}},
	{"EDR, two lanes", Warning, "link", "50 Gb/sec (2X EDR), with lanes missing", "cable",
		[]part{nic("cx6", ib("50 Gb/sec (2X EDR)"))}},
	{"QDR, one lane", Warning, "link", "lanes missing", "cable", []part{nic("cx3", ib("10 Gb/sec (1X QDR)"))}},
	{"FDR, one lane", Warning, "link", "lanes missing", "cable", []part{nic("cib", ib("14 Gb/sec (1X FDR)"))}},
	{"HDR, one lane", Warning, "link", "lanes missing", "cable", []part{nic("cx6", ib("50 Gb/sec (1X HDR)"))}},
	{"NDR, one lane", Warning, "link", "lanes missing", "cable", []part{nic("cx7", ib("100 Gb/sec (1X NDR)"))}},
	{"XDR, one lane", Warning, "link", "lanes missing", "cable", []part{nic("cx8", ib("200 Gb/sec (1X XDR)"))}},
	{"SDR on EDR", Warning, "link", "ports of a ConnectX-5 have up to 100 Gb/s", "mlxlink",
		[]part{nic("cx5", ib("10 Gb/sec (4X SDR)"))}},
	{"SDR on NDR", Warning, "link", "ports of a ConnectX-7 have up to 400 Gb/s", "mlxlink",
		[]part{nic("cx7", ib("10 Gb/sec (4X SDR)"))}},
	{"DDR on HDR", Warning, "link", "ports of a ConnectX-6 have", "mlxlink", []part{nic("cx6",
		ib("20 Gb/sec (4X DDR)"))}},
	{"1 Gb/s Ethernet", Warning, "link", "ports of a BlueField-2 have", "switch port",
		[]part{nic("bf2", roce("2.5 Gb/sec (1X SDR)", "10.0.0.1/24"))}},
	{"one of eight slower", Warning, "link", "another port of this model here has 400 Gb/s", "mlxlink -d 0000:17:00.0",
		[]part{each(7, func(int) part { return nic("cx7", ib(ndr)) }), nic("cx7", ib("200 Gb/sec (2X NDR)"))}},
	{"one of two slower, RoCE", Warning, "link", "another port of this model here has 100 Gb/s", "mlxlink",
		[]part{nic("cx6dx", roce(edr, "10.0.0.1/24")), nic("cx6dx", roce("25 Gb/sec (1X EDR)", "10.0.0.2/24"))}},

	// Slots.
	{"x4", Warning, "pcie", "PCIe carries 63 Gb/s, the ports 100", "lspci -vv -s 0000:10:00.0",
		[]part{nic("cx6dx", roce(edr, "10.0.0.1/24"), slow(16, 4))}},
	{"2.5 GT/s", Warning, "pcie", "PCIe carries 32 Gb/s, the ports 100", "lspci",
		[]part{nic("cx5", ib(edr), slow(2.5, 16))}},
	{"EDR in x8", Warning, "pcie", "PCIe carries 63 Gb/s", "lspci", []part{nic("cx5", ib(edr), slow(8, 8))}},
	{"HDR in Gen3", Warning, "pcie", "PCIe carries 126 Gb/s, the ports 200", "lspci",
		[]part{nic("cx6", ib(hdr), slow(8, 16))}},
	{"NDR in Gen4", Warning, "pcie", "PCIe carries 252 Gb/s, the ports 400", "lspci",
		[]part{nic("cx7", ib(ndr), slow(16, 16))}},
	{"XDR in Gen5", Warning, "pcie", "PCIe carries 504 Gb/s, the ports 800", "lspci",
		[]part{nic("cx8", ib("800 Gb/sec (4X XDR)"), slow(32, 16))}},
	{"two functions in Gen3", Warning, "pcie", "mlx5_1/1 100 Gb/sec (4X EDR)", "lspci", []part{
		nic("cx6dx", roce(edr, "10.0.0.1/24"), slow(8, 16)),
		nic("cx6dx", roce(edr, "10.0.1.1/24"), slow(8, 16), in("0000:10:00.1"))}},
	{"two functions of another vendor", Warning, "pcie", "PCIe carries 126 Gb/s, the ports 200", "lspci", []part{
		nic("bcm575", roce(edr, "10.0.0.1/24"), slow(8, 16)),
		nic("bcm575", roce(edr, "10.0.1.1/24"), slow(8, 16), in("0000:10:00.1"))}},
	{"two ports of one function", Warning, "pcie", "the ports 112", "lspci",
		[]part{nic("cx4", ib("56 Gb/sec (4X FDR)"), ib("56 Gb/sec (4X FDR)"), slow(8, 8))}},
	{"half of Socket Direct", Warning, "pcie", "PCIe carries 157 Gb/s, the ports 200", "lspci", []part{
		nic("cx6", ib(hdr), slow(8, 16), imageGUID("0c42:a103:0000:9999")),
		nic("cx6", ib(hdr), slow(8, 4), imageGUID("0c42:a103:0000:9999"))}},
	{"a card whose own link is too small for a port", Warning, "pcie", "PCIe carries 63 Gb/s, the ports 100", "lspci",
		[]part{nic("cx4lx", ib(edr))}},

	// Ports.
	{"one of two ports down", Warning, "port", "mlx5_1/1 the port is DOWN (Polling)", "ip link set dev eth5 up",
		[]part{oneRoCE, nic("cx6dx", roce(edr, "10.0.1.1/24", unplug), in("0000:10:00.1"))}},
	{"a cable of InfiniBand", Warning, "port", "mlx5_1/1 the port is DOWN (Polling)", "check cable and switch",
		[]part{oneIB, nic("cx6", ib("10 Gb/sec (4X SDR)", unplug))}},
	{"no subnet manager", Warning, "port", "the port is INIT", "systemctl start opensm",
		[]part{oneIB, nic("cx6", ib(hdr, waits))}},
	{"a VF without a GUID", Warning, "port", "the virtual function has no GUID",
		"ip link set dev PF vf N node_guid GUID",
		[]part{oneIB, nic("vf", isVF, ib("10 Gb/sec (4X SDR)", unplug), nodeGUID(noGUID))}},
	{"a VF without a GUID, initialized", Warning, "port", "the virtual function has no GUID", "port_guid GUID",
		[]part{oneIB, nic("vf", isVF, ib(hdr, waits), nodeGUID(noGUID))}},
	{"a VF whose link is disabled", Warning, "port", "mlx5_1/1 the port is DOWN", "ip link set dev PF vf N state auto",
		[]part{oneIB, nic("vf", isVF, ib("10 Gb/sec (4X SDR)", unplug))}},
	{"a VF of RoCE", Warning, "port", "the port is DOWN", "ip link set dev eth5 up; ip link set dev PF vf N state auto",
		[]part{oneRoCE, nic("vf", isVF, roce(edr, "10.0.1.1/24", unplug))}},
	{"an SF", Warning, "port", "the port is DOWN", "devlink port function set PORT state active",
		[]part{oneRoCE, nic("cx6dx", isSF, roce(edr, "10.0.1.1/24", unplug))}},
	{"SoftRoCE", Warning, "port", "the port is DOWN", "ip link set dev eth5 up",
		[]part{oneRoCE, nic("soft", roce(edr, "10.0.1.1/24", unplug))}},
	{"all ports down", Error, "port", "no port of any device is ACTIVE", "rdma link",
		[]part{nic("cx6", ib(hdr, unplug)), nic("cx6", ib(hdr, unplug))}},

	// Partitions.
	{"no P_Key", Error, "pkey", "pkeys: ", "partitions.conf", []part{nic("cx6", ib(hdr, keys("0x0000", "0x0000")))}},
	{"a limited member", Warning, "pkey", "0: 0x7fff", "GUID=full", []part{nic("cx6", ib(hdr, keys("0x7fff")))}},
	{"a limited member of two", Warning, "pkey", "1: 0x0005", "GUID=full",
		[]part{nic("cx6", ib(hdr, keys("0x7fff", "0x0005")))}},
	{"index 0 empty", Warning, "pkey", "P_Key index 0 is empty", "--pkey-index 2",
		[]part{nic("cx6", ib(hdr, keys("0x0000", "0x0005", "0x8006")))}},

	// Drivers: one for each row of adapters is added below.
	{"no device at all", Error, "device", "the kernel has no RDMA device", "modprobe mlx5_ib    # or", nil},
	{"a loaded driver that refuses", Error, "device", "bnxt_re is loaded", "dmesg | grep bnxt", []part{
		function("0x14e4", "0x1750"), also(func(b *bed) { b.tree.Mkdir("module/bnxt_re") })}},
	{"adapters of two vendors", Error, "device", "0000:42:00.0 of vendor 0x8086", "modprobe mlx5_ib; modprobe irdma",
		[]part{function("0x15b3", "0x1021"), writes("bus/pci/devices/0000:42:00.0/vendor", "0x8086",
			"bus/pci/devices/0000:42:00.0/device", "0x1592", "bus/pci/devices/0000:42:00.0/class", "0x020000")}},
	{"a NIC without RDMA", Error, "device", "class/infiniband is empty", "or the driver of your adapter",
		[]part{function("0x8086", "0x1572")}},
	{"a container without devices", Error, "device", "has no RDMA device", "--device=/dev/infiniband", []part{given()}},

	// Libraries.
	{"no libibverbs", Error, "library", "no program can use RDMA", "dnf", []part{oneIB, also(func(b *bed) {
		b.info.Libraries[0] = loader.LibraryInfo{Name: loader.IBVerbs, Error: "none", Remedy: "dnf"}
	})}},
	{"no librdmacm", Warning, "library", "only -R needs it", "dnf", []part{oneIB, also(func(b *bed) {
		b.info.Libraries[1] = loader.LibraryInfo{Name: loader.RDMACM, Error: "none", Remedy: "dnf"}
	})}},
	{"a newer card", Error, "provider", "older than this card", "dnf install libibverbs    # a newer release",
		[]part{oneIB, unlistedBy("mlx5_core", "mlx5")}},
	{"a newer SF", Error, "provider", "older than this card", "# a newer release",
		[]part{oneIB, unlistedBy("mlx5_core.sf", "mlx5")}},
	{"a newer Broadcom", Error, "provider", "older than this card", "# a newer release",
		[]part{oneIB, unlistedBy("bnxt_en", "bnxt_re")}},
	{"a newer Intel", Error, "provider", "older than this card", "# a newer release",
		[]part{oneIB, unlistedBy("ice", "irdma")}},
	{"a newer Huawei", Error, "provider", "older than this card", "# a newer release",
		[]part{oneIB, unlistedBy("hns3", "hns")}},
	{"no list of devices", Error, "provider", "EIO", "ibv_devices",
		[]part{oneIB, also(func(b *bed) { b.Unlisted = func() error { return errors.New("EIO") } })}},

	// Files and limits.
	{"no device file", Error, "permission", "the device file is missing", "modprobe ib_uverbs; udevadm trigger",
		[]part{oneIB, refused("uverbs0", fs.ErrNotExist)}},
	{"EACCES", Error, "permission", "uverbs0: permission denied", "chmod 666 /nowhere/infiniband/uverbs0",
		[]part{oneIB, refused("uverbs0", syscall.EACCES)}},
	{"EACCES when it is opened", Error, "permission", "/nowhere/infiniband/uverbs0: permission denied",
		"chmod 666 /nowhere/infiniband/uverbs0", []part{oneIB, also(func(b *bed) { b.open = syscall.EACCES })}},
	{"EPERM", Error, "permission", "uverbs0: operation not permitted", "DeviceAllow=/nowhere/infiniband/uverbs0 rw",
		[]part{oneIB, refused("uverbs0", syscall.EPERM)}},
	{"EPERM when it is opened", Error, "permission", "/nowhere/infiniband/uverbs0: operation not permitted",
		"DeviceAllow=/nowhere/infiniband/uverbs0 rw", []part{oneIB, also(func(b *bed) { b.open = syscall.EPERM })}},
	{"no driver behind the file", Error, "permission", "has no driver behind it", "rdma link",
		[]part{oneIB, refused("uverbs0", syscall.ENXIO)}},
	{"rdma_cm refused", Warning, "module", "rdma_cm: permission denied", "chmod 666 /nowhere/infiniband/rdma_cm",
		[]part{oneIB, refused("rdma_cm", syscall.EACCES)}},
	{"no rdma_ucm", Warning, "module", "rdma_cm cannot be used", "modprobe rdma_ucm",
		[]part{oneIB, refused("rdma_cm", fs.ErrNotExist)}},
	{"not opened", Error, "open", "EIO", "dmesg", []part{oneIB, also(func(b *bed) { b.open = errors.New("EIO") })}},
	{"no ib_uverbs", Error, "module", "ib_uverbs is not loaded", "modprobe ib_uverbs",
		[]part{oneIB, without("class/infiniband_verbs")}},
	{"64 KiB", Error, "memlock", "at most 64 KiB", "ulimit -l unlimited", []part{oneIB,
		proc("self/limits", limits("65536"))}},
	{"8 MiB", Warning, "memlock", "at most 8192 KiB", "ulimit -l unlimited",
		[]part{oneIB, proc("self/limits", limits("8388608"))}},
	{"a control group", Warning, "cgroup", "hca_object=2000", "hca_handle=max", []part{oneIB,
		writes("fs/cgroup/a/b/rdma.max", "mlx5_0 hca_handle=2 hca_object=2000")}},

	// Speed.
	{"powersave", Warning, "governor", "powersave", "cpupower frequency-set", []part{oneIB,
		writes("devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave")}},
	{"no NUMA node", Warning, "numa", "does not report the node", "firmware settings", []part{nic("cx6", ib(hdr),
		onNUMA(-1)), nodes(2)}},
	{"IOMMU", Warning, "iommu", "translates", "iommu=pt", []part{oneIB, writes("class/iommu/dmar0/a", "",
		"kernel/iommu_groups/12/type", "DMA-FQ"), also(func(b *bed) {
		b.tree.Symlink("../../../kernel/iommu_groups/12", "devices/pci0000:00/0000:10:00.0/iommu_group")
	})}},
	{"MTU too small", Warning, "mtu", "active MTU 1024, although 4096 fits", "ip link set dev eth3 down",
		[]part{oneRoCE, also(func(b *bed) {
			b.MTUs = func(string) (map[int]int, error) { return map[int]int{1: 1024}, nil }
		})}},
	{"MTU too large", Error, "mtu", "4096 does not fit into the 1500 bytes of eth3", "ip link set dev eth3 mtu 4200",
		[]part{oneRoCE, writes("class/net/eth3/mtu", "1500")}},
	{"trust", Warning, "qos", "trusts the PCP", "--trust dscp", []part{oneRoCE,
		writes("class/net/eth3/qos/trust", "pcp", "class/net/eth3/qos/pfc", "0 0 0 1 0 0 0 0")}},
	{"no flow control", Warning, "qos", "neither PFC nor ECN", "--pfc", []part{oneRoCE,
		writes("class/net/eth3/qos/pfc", "0 0 0 0 0 0 0 0", "class/net/eth3/ecn/roce_np/enable/3", "0")}},
	{"a filter of SoftRoCE", Warning, "firewall", "udp dport 4791 drop", "nft insert rule", []part{nic("soft",
		roce("10 Gb/sec (1X FDR10)", "10.0.0.1/24")), also(func(b *bed) { b.Rules = ruleset("udp dport 4791 drop") })}},
	{"symbol errors", Warning, "errors", "symbol_error rose by 5", "ibqueryerrors", []part{oneIB, also(func(b *bed) {
		b.second = func(b *bed) { b.tree.Write("class/infiniband/mlx5_0/ports/1/counters/symbol_error", "5") }
	})}},
	{"damaged packets", Warning, "errors", "port_rcv_errors rose by 7", "ibqueryerrors", []part{nic("cx6", ib(hdr,
		count("port_rcv_errors", 0))), also(func(b *bed) {
		b.second = func(b *bed) { b.tree.Write("class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors", "7") }
	})}},
}

// TestFaultyHosts: of a host with one fault, the doctor names that fault, nothing else, and what mends it.
func TestFaultyHosts(t *testing.T) {
	hosts := faults
	for name, most := range hostfacts.CounterLimits() {
		hosts = append(hosts, faulty{name + " is full", Warning, "errors", fmt.Sprintf("%s %d", name, most),
			"perfquery -C mlx5_0 -P 1 -R", []part{nic("cx6", ib(hdr, count(name, int(most))))}})
	}
	for _, a := range adapters {
		id := strings.Fields(a.ids)[0]
		hosts = append(hosts, faulty{a.module + " is not loaded", Error, "device", "0000:41:00.0 of vendor " + a.vendor,
			"modprobe " + a.module, []part{function(a.vendor, id+"0000"[:6-len(id)])}})
	}
	wrong := 0
	for _, h := range hosts {
		if err := h.examine(newWorld(t, h.parts)); err != nil {
			wrong++
			t.Errorf("%s: %v", h.name, err)
		}
	}
	t.Logf("figure doctor_missed_faults %d of_%d_hosts_with_one_fault", wrong, len(hosts))
	if len(hosts) < 60 {
		t.Errorf("%d hosts, want 60 or more", len(hosts))
	}
}

func (h *faulty) examine(w *world) error {
	bad := alarms(w)
	found := false
	for _, f := range bad {
		if f.Check != h.check {
			return fmt.Errorf("an alarm about something else: %+v", f)
		}
		found = found || f.Severity == h.severity && strings.Contains(f.Remedy, h.remedy) &&
			strings.Contains(f.Subject+" "+f.Text+"\n"+f.Evidence, h.text)
	}
	if !found {
		return fmt.Errorf("no %v of %s with %q and %q: %+v", h.severity, h.check, h.text, h.remedy, bad)
	}
	return nil
}

// TestModules: each PCI ID of the adapters that have been without a device in reports, and of their neighbours without
// RDMA, makes the right driver the remedy.
func TestModules(t *testing.T) {
	for id, want := range map[string]string{
		"0x14e4 0x16d7": "bnxt_re", "0x14e4 0x1750": "bnxt_re", "0x14e4 0x1760": "bnxt_re", "0x14e4 0x1806": "bnxt_re",
		"0x14e4 0x165f": "", "0x14e4 0x16dd": "", // tg3
		"0x8086 0x1592": "irdma", "0x8086 0x159b": "irdma", "0x8086 0x37d2": "irdma", "0x8086 0x188c": "irdma",
		"0x8086 0x1572": "", "0x8086 0x1889": "", // X710, an adaptive VF
		"0x8086 0x24f0": "hfi1", "0x1d0f 0xefa0": "efa", "0x1d0f 0xefa3": "efa", "0x1d0f 0xec20": "", // ENA
		"0x19e5 0xa222": "hns_roce_hw_v2", "0x19e5 0xa228": "hns_roce_hw_v2", "0x19e5 0xa250": "",
		"0x1dd8 0x1002": "ionic_rdma", "0x1ded 0x107f": "erdma", "0x1414 0x00ba": "mana_ib",
		"0x1425 0x6401": "iw_cxgb4", "0x1077 0x8070": "qedr", "0x15b3 0x1003": "mlx4_ib",
		"0x15b3 0x1010": "mlx4_ib", "0x15b3 0x1011": "mlx5_ib",
		"0x15b3 0x1021": "mlx5_ib", "0x15b3 0xa2dc": "mlx5_ib", "0x15ad 0x0820": "vmw_pvrdma",
	} {
		vendor, device, _ := strings.Cut(id, " ")
		w := newWorld(t, []part{function(vendor, device)})
		bad := alarms(w)
		remedy := "modprobe mlx5_ib    # or the driver of your adapter"
		if want != "" {
			remedy = "modprobe " + want
		}
		if len(bad) != 1 || bad[0].Remedy != remedy {
			t.Errorf("%s: %+v, want %q", id, bad, remedy)
		}
	}
}

// TestNotes: what is worth knowing, but no warning, is told.
func TestNotes(t *testing.T) {
	for name, h := range map[string]faulty{
		"default GID": {check: "gid", text: "GID 1, fe80::e42:a1ff:fe01:101 RoCEv2, is not chosen: no interface " +
			"here has this address: the kernel made the GID from the interface's MAC",
			parts: []part{nic("cx6dx", roce(edr, "10.0.0.1/24", off6))}},
		"high index": {check: "gid", text: "GID 300, 10.0.0.2 RoCEv2, is not chosen: index above 255",
			parts: []part{oneRoCE, also(func(b *bed) {
				b.tree.GID("mlx5_0", 1, 300, long("10.0.0.2"), sysfstest.V2, "eth3")
			}), func(w *world) { w.Addrs = append(w.Addrs, "eth3 10.0.0.2/24") }}},
		"room in the slot": {check: "pcie", text: "below the maximum of the device: 16 GT/s x16 of 32 GT/s x16; it " +
			"carries 252 Gb/s, the ports 200", parts: []part{nic("cx7", ib(hdr), slow(16, 16))}},
		"the card's own link": {check: "pcie", text: "the ports have 400 Gb/s together, more than the 252",
			parts: []part{nic("cx6", ib(hdr)), nic("cx6", ib(hdr), in("0000:10:00.1"))}},
		"another rail": {check: "link", text: "a port of this model on another network has 400 Gb/s",
			parts: []part{nic("cx7", ib(ndr)), nic("cx7", ib(hdr, subnet(7)))}},
		"an old kernel": {check: "link", text: "cannot be told", parts: []part{nic("cx7", ib("10 Gb/sec (4X SDR)")),
			proc("sys/kernel/osrelease", "5.4.0\n")}},
		"a limited member at index 0": {check: "pkey", text: "reaches full members only", remedy: "--pkey-index 1",
			parts: []part{nic("cx6", ib(hdr, keys("0x7fff", "0x8005")))}},
		"a port that is down with an empty table": {check: "gid", text: "no GID can be used: the GID table is empty",
			parts: []part{oneIB, nic("cx6", ib(hdr, unplug, noGIDs))}},
		"the PCP of a VLAN": {check: "qos", text: "only packets of eth3.vlan have priorities", parts: []part{nic("cx5",
			roce(edr, "10.0.0.1/24", below("vlan"))),
			writes("class/net/eth3/qos/trust", "pcp", "class/net/eth3/qos/pfc", "0 0 0 1 0 0 0 0")}},
	} {
		found := false
		r := Examine(newWorld(t, h.parts).Host, "rdmaperf")
		for _, f := range r.Findings {
			found = found || f.Severity == Note && f.Check == h.check && strings.Contains(f.Text, h.text) &&
				strings.Contains(f.Remedy, h.remedy)
		}
		if !found {
			t.Errorf("%s: no note of %s with %q: %+v", name, h.check, h.text, r.Findings)
		}
	}
}

// TestBelowEmulator: below the emulator nothing is found that it does not obey, and remedies are its options.
func TestBelowEmulator(t *testing.T) {
	emulated := func(w *world) {
		w.tree.Write("class/infiniband/mlx5_0/node_desc", "emulated")
		w.bed.proc("self/limits", limits("65536"))
		w.tree.Write("devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave")
		w.tree.Write("fs/cgroup/a/b/rdma.max", "mlx5_0 hca_handle=2 hca_object=2000")
		w.Rules = ruleset("udp dport 4791 drop")
	}
	w := newWorld(t, []part{nic("cx6dx", roce(edr, "10.0.0.1/24", frame(1500)), slow(2.5, 1), onNUMA(-1)), nodes(2),
		emulated})
	if bad := alarms(w); len(bad) > 0 {
		t.Errorf("%+v", bad)
	}
	for _, f := range Examine(w.Host, "rdmaperf").Findings {
		if f.Remedy != "" && f.Remedy != "emu --device mlx5_0,mtu=4096" {
			t.Errorf("%+v", f)
		}
	}
	if found := Spoilers(w.Host, "mlx5_0", 1, 3, 1024); len(found) != 1 || found[0].Check != "mtu" {
		t.Errorf("next to figures: %+v", found)
	}
	w.Register = func(string, int) error { return syscall.ENOMEM }
	if bad := alarms(w); len(bad) != 1 || bad[0].Check != "memlock" || bad[0].Remedy != "emu --memlock 0" {
		t.Errorf("with a limit of its own: %+v", bad)
	}
	w.bed.proc("self/limits", limits("unlimited"))
	if bad := alarms(w); len(bad) != 1 || bad[0].Check != "memlock" ||
		!strings.Contains(bad[0].Evidence, "cannot allocate") {
		t.Errorf("with a limit of its own alone: %+v", bad)
	}
}
