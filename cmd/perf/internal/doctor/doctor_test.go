package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/dcb"
	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
	"github.com/pureverbs/pureverbs/loader"
)

const (
	pci   = "0000:3b:00.0"
	dev   = "class/infiniband/mlx5_0/"
	bus   = "bus/pci/devices/" + pci + "/"
	v4    = "0000:0000:0000:0000:0000:ffff:0a0a:0a01"
	local = "fe80:0000:0000:0000:0e42:a1ff:fe65:1a2e"
)

// bed is a machine on which all is well.
type bed struct {
	*Host
	tree *sysfstest.Tree
	info loader.Info
	mtus map[int]int
	open error
	port map[string]*dcb.Port // by interface

	second func(*bed) // happens between two looks at the counters
}

// noDCB is what the kernel says of an interface whose driver has no DCB.
func (b *bed) noDCB() error {
	if b.port == nil {
		return fmt.Errorf("netlink (RTM_GETDCB) of eth2: %w", syscall.EOPNOTSUPP)
	}
	return nil
}

// dcb makes the kernel report a port, and removes what vendors' drivers have in sysfs.
func (b *bed) dcb(p *dcb.Port) {
	b.tree.Remove("class/net/eth2/qos")
	b.port = map[string]*dcb.Port{"eth2": p}
}

// marks is a table of 64 entries, as mlx5 has it, in which DSCP 24 to 31 get priority 3.
func marks() (apps []dcb.App) {
	for i := range uint16(64) {
		apps = append(apps, dcb.App{Selector: dcb.SelDSCP, Priority: uint8(i / 8), Protocol: i})
	}
	return apps
}

func (b *bed) proc(name, text string) {
	path := b.Facts.ProcPath(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		panic(err)
	}
}

func newBed(t *testing.T) *bed {
	b := newBare(t)
	tr := b.tree
	tr.Netdev("eth2", "up", "0x1003", 4, 9000, "")
	tr.Device("mlx5_0", "pci0000:3a/0000:3a:00.0/"+pci, "mlx5_core", "0c42:a103:0065:1a2e")
	tr.Port("mlx5_0", 1, "4: ACTIVE", "Ethernet", "100 Gb/sec (4X EDR)", 4)
	tr.GID("mlx5_0", 1, 0, local, sysfstest.V2, "eth2")
	tr.GID("mlx5_0", 1, 3, v4, sysfstest.V2, "eth2")
	tr.Symlink("../../../devices/pci0000:3a/0000:3a:00.0/"+pci, "bus/pci/devices/"+pci)
	tr.Symlink("../../../devices/pci0000:3a/0000:3a:00.0", "bus/pci/devices/0000:3a:00.0")
	for name, text := range map[string]string{"vendor": "0x15b3", "device": "0x101d", "class": "0x020000",
		"current_link_speed": "16.0 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe", "current_link_width": "16",
		"max_link_width": "16"} {
		tr.Write(bus+name, text)
	}
	tr.Write("class/infiniband_verbs/uverbs0/ibdev", "mlx5_0")
	tr.Write("class/net/eth2/qos/trust", "dscp")
	tr.Write("class/net/eth2/qos/pfc", "0 0 0 1 0 0 0 0")
	tr.Write(dev+"ports/1/counters/symbol_error", "0")
	return b
}

// newBare returns a machine without a device.
func newBare(t *testing.T) *bed {
	tr := sysfstest.New(t)
	tr.Write("devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance")
	b := &bed{tree: tr, mtus: map[int]int{1: 4096}}
	b.info.Libraries = []loader.LibraryInfo{{Name: loader.IBVerbs, Version: "44.0", Path: "/lib/libibverbs.so.1"},
		{Name: loader.RDMACM, Version: "44.0", Path: "/lib/librdmacm.so.1"}}
	b.Host = &Host{Facts: hostfacts.Host{Sys: tr.Root, Proc: t.TempDir()}, Dev: "/nowhere",
		Access:   func(string) error { return nil },
		Load:     func() *loader.Info { return &b.info },
		Unlisted: func() error { return nil },
		MTUs:     func(string) (map[int]int, error) { return b.mtus, b.open },
		Register: func(string, int) error { return b.open },
		Rules:    func() (string, string, error) { return "", "[nft list ruleset]", nil },
		DCB:      func(netdev string) (*dcb.Port, error) { return b.port[netdev], b.noDCB() },
		Second:   func() { b.second(b) }}
	b.second = func(*bed) {}
	b.proc("sys/kernel/hostname", "node1\n")
	b.proc("sys/kernel/osrelease", "6.1.0\n")
	b.proc("self/limits", limits("unlimited"))
	b.proc("self/uid_map", "         0          0 4294967295\n")
	b.proc("self/status", "Name:\trdmaperf\nCapEff:\t0000000000000000\n")
	b.proc("self/cgroup", "0::/a/b\n")
	return b
}

func limits(locked string) string {
	return "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max processes             127               127               processes \n" +
		"Max locked memory         " + locked + "              unlimited              bytes     \n"
}

func TestHealthy(t *testing.T) {
	b := newBed(t)
	r := Examine(b.Host, "rdmaperf")
	if r.Worst > Note || r.Hostname != "node1" || r.Kernel != "6.1.0" || len(r.Devices) != 1 {
		t.Errorf("%+v", r)
	}
	for _, f := range r.Findings {
		if f.Severity > Note || f.Text == "" || f.Evidence == "" {
			t.Errorf("%+v", f)
		}
	}
	d := r.Devices[0]
	if d.Model != "ConnectX-6 Dx" || d.Function != "PF" || d.PCI.Link.Width != 16 || d.PCI.Link.Bits()/1e9 != 252 ||
		d.Links[0].MTU != 4096 || *d.Links[0].GID != 3 || d.Links[0].GIDType != "RoCEv2" ||
		d.Links[0].NetdevMTU != 9000 ||
		d.Links[0].Lossless["trust"] != "dscp" {
		t.Errorf("%+v", d)
	}
}

// TestFindings changes one thing at a time on a healthy machine.
func TestFindings(t *testing.T) {
	acs := make([]byte, 0x160)
	acs[0x100], acs[0x102], acs[0x103] = 0x01, 0x01, 0x15 // AER, the next at 0x150
	acs[0x150], acs[0x152] = 0x0d, 0x01
	acs[0x156] = 0x1d
	for name, tc := range map[string]struct {
		change func(b *bed)
		want   Severity
		check  string
		text   string // of text, evidence or remedy
	}{
		"no libibverbs": {func(b *bed) {
			b.info.Libraries[0] = loader.LibraryInfo{Name: loader.IBVerbs, Error: "none", Remedy: "dnf"}
		},
			Error, "library", "dnf"},
		"no librdmacm": {func(b *bed) {
			b.info.Libraries[1] = loader.LibraryInfo{Name: loader.RDMACM, Error: "none", Remedy: "apk"}
		},
			Warning, "library", "apk"},
		"setuid": {func(b *bed) { b.info.Ignored = []string{"SYSFS_PATH"} }, Note, "library", "SYSFS_PATH"},
		"no list": {func(b *bed) { b.Unlisted = func() error { return errors.New("EIO") } }, Error, "provider",
			"EIO"},
		"no provider": {func(b *bed) { b.unlisted() }, Error, "provider", "dnf install libibverbs"},
		"a provider of another release": {func(b *bed) {
			b.unlisted(loader.Provider{Name: "mlx5", Path: "/p", Problem: "is of v22: use both from the same package"})
		}, Error, "provider", "use both from the same package"},
		"a provider that does not load": {func(b *bed) { b.unlisted(loader.Provider{Name: "mlx5", Path: "/p"}) }, Error,
			"provider", "LD_LIBRARY_PATH"},
		"an old provider": {func(b *bed) { b.unlisted(loader.Provider{Name: "mlx5", Path: "/p", Loaded: true}) }, Error,
			"provider", "a newer release"},
		"exclusive network namespaces": {func(b *bed) {
			b.tree.Remove("class/infiniband/mlx5_0")
			b.tree.Write("module/ib_core/parameters/netns_mode", "N")
			b.tree.Mkdir("module/mlx5_ib")
		}, Error, "device", "rdma dev set DEVICE netns PID"},
		"a driver without a device": {func(b *bed) {
			b.tree.Remove("class/infiniband/mlx5_0")
			b.tree.Write("module/ib_core/parameters/netns_mode", "Y")
			b.tree.Mkdir("module/mlx5_ib")
		}, Error, "device", "dmesg | grep mlx5"},
		"no device file": {func(b *bed) { b.Access = denied("uverbs0", fs.ErrNotExist) }, Error, "permission",
			"modprobe ib_uverbs; udevadm trigger"},
		"no driver behind the file": {func(b *bed) { b.Access = denied("uverbs0", syscall.ENXIO) }, Error, "permission",
			"has no driver behind it"},
		"devices control group": {func(b *bed) { b.Access = denied("uverbs0", syscall.EPERM) }, Error, "permission",
			"DeviceAllow=/nowhere/infiniband/uverbs0"},
		"devices control group of a container": {func(b *bed) {
			b.Access, b.Container = denied("uverbs0", syscall.EPERM), "/.dockerenv"
		}, Error, "permission", "--device=/nowhere/infiniband/uverbs0"},
		"nodev": {func(b *bed) {
			b.Access = denied("uverbs0", syscall.EACCES)
			b.proc("self/mountinfo", "22 1 0:5 / / rw - ext4 a rw\n23 22 0:6 / /nowhere rw,nosuid,nodev - tmpfs b rw\n")
		}, Error, "permission", "findmnt -T /nowhere/infiniband/uverbs0"},
		"a policy": {func(b *bed) {
			b.Dev = t.TempDir()
			os.Mkdir(b.Dev+"/infiniband", 0o755)
			os.WriteFile(b.Dev+"/infiniband/uverbs0", nil, 0o600)
			os.Chmod(b.Dev+"/infiniband/uverbs0", 0o666)
			b.Access = denied("uverbs0", syscall.EACCES)
		}, Error, "permission", "ausearch"},
		"memory of a container with users of its own": {func(b *bed) {
			b.proc("self/limits", limits("65536"))
			b.proc("self/uid_map", "0 1000 65536\n")
			b.Container = "/.dockerenv"
		}, Error, "memlock", "--ulimit memlock=-1, by a user"},
		"no class": {func(b *bed) { b.tree.Remove("class/infiniband") }, Error, "device", pci + " of vendor 0x15b3"},
		"no device": {func(b *bed) { b.tree.Remove("class/infiniband/mlx5_0"); b.tree.Remove("bus") }, Error, "device",
			"modprobe mlx5_ib"},
		"no device in a container": {func(b *bed) {
			b.tree.Remove("class/infiniband/mlx5_0")
			b.tree.Remove("bus")
			b.Container = "/.dockerenv"
		}, Error, "device", "--device=/dev/infiniband"},
		"no ib_uverbs": {func(b *bed) { b.tree.Remove("class/infiniband_verbs") }, Error, "module",
			"modprobe ib_uverbs"},
		"no rdma_ucm": {func(b *bed) { b.Access = denied("rdma_cm", fs.ErrNotExist) }, Warning, "module",
			"modprobe rdma_ucm"},
		"no permission": {func(b *bed) { b.Access = denied("uverbs0", fs.ErrPermission) }, Error, "permission",
			"chmod 666 /nowhere/infiniband/uverbs0"},
		"no permission in a container": {func(b *bed) {
			b.Access, b.Container = denied("uverbs0", fs.ErrPermission), "/.dockerenv"
		}, Error, "permission", "chmod 666 /nowhere/infiniband/uverbs0    # on the host"},
		"not opened": {func(b *bed) { b.open, b.mtus = errors.New("get_context: EIO"), nil }, Error, "open", "EIO"},
		"a variable of the environment": {func(b *bed) {
			bad := &ibv.ArgError{Arg: "the environment variable MLX5_TOTAL_UUARS", Got: `"2"`, Want: "6 to 512"}
			b.open, b.mtus = fmt.Errorf("opening mlx5_0: %w", bad), nil
		}, Error, "open", "unset MLX5_TOTAL_UUARS"},
		"opening not permitted": {func(b *bed) { b.open, b.mtus = fs.ErrPermission, nil }, Error, "permission",
			"chmod 666 /nowhere/infiniband/uverbs0"},
		"little room": {func(b *bed) { b.tree.Netdev("eth2", "up", "0x1003", 4, 4170, "") }, Warning, "mtu",
			"leaves 74 of the 4170 bytes"},
		"little memory": {func(b *bed) { b.proc("self/limits", limits("65536")) }, Error, "memlock", "at most 64 KiB"},
		"no memory":     {func(b *bed) { b.proc("self/limits", limits("0")) }, Error, "memlock", "at most 0 KiB"},
		"some memory": {func(b *bed) { b.proc("self/limits", limits("8388608")) }, Warning, "memlock",
			"ulimit -l unlimited"},
		"much memory": {func(b *bed) { b.proc("self/limits", limits("1073741824")) }, Note, "memlock", "1024 MiB"},
		"memory of a container": {func(b *bed) { b.proc("self/limits", limits("65536")); b.Container = "/.dockerenv" },
			Error, "memlock", "--ulimit memlock=-1"},
		"CAP_IPC_LOCK": {func(b *bed) {
			b.proc("self/limits", limits("65536"))
			b.proc("self/status", "CapEff:\t0000000000004000\n")
		}, OK, "memlock", "CAP_IPC_LOCK"},
		"CAP_IPC_LOCK of a user namespace": {func(b *bed) {
			b.proc("self/limits", limits("65536"))
			b.proc("self/status", "CapEff:\t0000000000004000\n")
			b.proc("self/uid_map", "0 1000 1\n")
		}, Error, "memlock", "at most 64 KiB"},
		"governor": {func(b *bed) { b.tree.Write("devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave") },
			Warning,
			"governor", "1 of 2 CPUs is powersave"},
		"port down": {func(b *bed) { b.tree.Write(dev+"ports/1/state", "1: DOWN") }, Error, "port",
			"no port of any device"},
		"one of two ports down": {func(b *bed) {
			b.tree.Port("mlx5_0", 2, "1: DOWN", "Ethernet", "100 Gb/sec (4X EDR)", 0)
		},
			Warning, "port", "the port is DOWN"},
		"no subnet manager": {func(b *bed) {
			b.tree.Port("mlx5_0", 2, "2: INIT", "InfiniBand", "10 Gb/sec (4X SDR)", 0)
		},
			Warning, "port", "opensm"},
		"RoCE v1": {func(b *bed) {
			b.tree.GID("mlx5_0", 1, 0, local, sysfstest.V1, "eth2")
			b.tree.GID("mlx5_0", 1, 3, v4, sysfstest.V1, "eth2")
		}, Warning, "gid", "is RoCE v1"},
		"link-local": {func(b *bed) { b.tree.Remove(dev + "ports/1/gids/3") }, Warning, "gid", "ip addr add"},
		"no GID": {func(b *bed) {
			b.tree.Remove(dev + "ports/1/gids/0")
			b.tree.Remove(dev + "ports/1/gids/3")
		}, Error, "gid", "the GID table is empty"},
		"nothing fills the table": {func(b *bed) {
			b.tree.Remove(dev + "ports/1/gids/0")
			b.tree.Remove(dev + "ports/1/gids/3")
		}, Error, "gid", "ip addr add ADDRESS/PREFIX"},
		"all GIDs of another namespace": {func(b *bed) { b.tree.Addresses("eth0 10.10.10.1/24") }, Error, "gid",
			"no interface here has this address"},
		"some GIDs of another namespace": {func(b *bed) { b.tree.Addresses("eth2 10.10.10.1/24") }, Warning, "gid",
			"no interface here has the addresses of 1 of 2 GIDs"},
		"iWARP": {func(b *bed) { b.tree.Write(dev+"node_type", "4: RNIC") }, OK, "gid", "iWARP connects by IP"},
		"an unreadable device": {func(b *bed) { b.tree.Symlink("mlx5_7", "class/infiniband/mlx5_7") }, Error,
			"device", "RDMA device mlx5_7"},
		"no GID table": {func(b *bed) { b.tree.Remove(dev + "ports/1/gids") }, Error, "gid", "cannot be read"},
		"netdev down": {func(b *bed) { b.tree.Netdev("eth2", "down", "0x1002", 4, 9000, "") }, Error, "gid",
			"no GID can"},
		"why not": {func(b *bed) {}, Note, "gid",
			"GID 0, fe80::e42:a1ff:fe65:1a2e RoCEv2, is not chosen: link-local"},
		"MTU too large": {func(b *bed) { b.tree.Netdev("eth2", "up", "0x1003", 4, 1500, "") }, Error, "mtu",
			"mtu 4200"},
		"MTU too small": {func(b *bed) { b.mtus[1] = 1024 }, Warning, "mtu", "1024, although 4096 fits"},
		"small netdev": {func(b *bed) { b.mtus[1] = 1024; b.tree.Netdev("eth2", "up", "0x1003", 4, 1500, "") },
			Note, "mtu", "4200"},
		"a link of one lane": {func(b *bed) { b.tree.Write(dev+"ports/1/rate", "2.5 Gb/sec (1X SDR)") }, Warning,
			"link", "ports of a ConnectX-6 Dx have up to 200 Gb/s"},
		"a slow link of this model": {func(b *bed) { b.tree.Write(dev+"ports/1/rate", "25 Gb/sec (1X EDR)") }, OK,
			"link", "the rate is"},
		"slower than the other port": {func(b *bed) {
			b.tree.Write(dev+"ports/1/rate", "25 Gb/sec (1X EDR)")
			b.tree.Port("mlx5_0", 2, "4: ACTIVE", "Ethernet", "100 Gb/sec (4X EDR)", 0)
		}, Warning, "link", "another port of this model here has 100 Gb/s"},
		"InfiniBand with lanes missing": {func(b *bed) {
			b.tree.Port("mlx5_0", 2, "4: ACTIVE", "InfiniBand", "50 Gb/sec (2X EDR)", 0)
		}, Warning, "link", "lanes missing"},
		"errors before": {func(b *bed) { b.tree.Write(dev+"ports/1/counters/link_downed", "3") }, Note, "errors",
			"link_downed 3"},
		"errors now": {func(b *bed) {
			b.second = func(b *bed) { b.tree.Write(dev+"ports/1/counters/symbol_error", "5") }
		}, Warning, "errors", "symbol_error rose by 5"},
		"errors reset": {func(b *bed) {
			b.tree.Write(dev+"ports/1/counters/symbol_error", "9")
			b.second = func(b *bed) { b.tree.Write(dev+"ports/1/counters/symbol_error", "5") }
		}, Note, "errors", "symbol_error 5"},
		"no counters": {func(b *bed) { b.tree.Remove(dev + "ports/1/counters") }, Note, "errors", "not checked"},
		"PCIe speed": {func(b *bed) { b.tree.Write(bus+"current_link_speed", "8.0 GT/s PCIe") }, Note, "pcie",
			"below"},
		"PCIe width": {func(b *bed) { b.tree.Write(bus+"current_link_width", "4") }, Warning, "pcie",
			"carries 63 Gb/s, the ports 100"},
		"PCIe not known": {func(b *bed) { b.tree.Write(bus+"current_link_speed", "Unknown") }, Note, "pcie",
			"not known"},
		"PCIe of garbage": {func(b *bed) { b.tree.Write(bus+"current_link_width", "-3") }, Note, "pcie", "not known"},
		"VF": {func(b *bed) { b.tree.Symlink("../"+pci, "devices/pci0000:3a/0000:3a:00.0/"+pci+"/physfn") }, OK,
			"device",
			"ConnectX-6 Dx VF"},
		"two nodes": {func(b *bed) {
			b.tree.Mkdir("devices/system/node/node0")
			b.tree.Mkdir("devices/system/node/node1")
		}, Note, "numa", "numactl --cpunodebind=1"},
		"node not known": {func(b *bed) {
			b.tree.Mkdir("devices/system/node/node0")
			b.tree.Mkdir("devices/system/node/node1")
			b.tree.Write(bus+"numa_node", "-1")
		}, Warning, "numa", "does not report the node"},
		"IOMMU":         {func(b *bed) { b.iommu("DMA-FQ") }, Warning, "iommu", "iommu=pt"},
		"IOMMU through": {func(b *bed) { b.iommu("identity") }, OK, "iommu", "identity"},
		"ACS": {func(b *bed) { b.tree.Write("devices/pci0000:3a/0000:3a:00.0/config", string(acs)) }, Note, "acs",
			"setpci -s 0000:3a:00.0"},
		"cgroup": {func(b *bed) { b.tree.Write("fs/cgroup/a/b/rdma.max", "mlx5_0 hca_handle=2 hca_object=2000") },
			Warning,
			"cgroup", "hca_object=2000"},
		"cgroup above": {func(b *bed) { b.tree.Write("fs/cgroup/a/rdma.max", "mlx5_0 hca_handle=2 hca_object=max") },
			Warning, "cgroup", "hca_handle=2"},
		"RoCE of rdma_cm": {func(b *bed) {
			b.tree.Write("kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode", "IB/RoCE v1")
		}, Warning, "roce", "cma_roce_mode -d mlx5_0 -p 1 -m 2"},
		"trust": {func(b *bed) { b.tree.Write("class/net/eth2/qos/trust", "pcp") }, Warning, "qos", "--trust dscp"},
		"trust: a driver's other word": {func(b *bed) { b.tree.Write("class/net/eth2/qos/trust", "both") }, OK, "qos",
			"trust both"},
		"no PFC, no ECN": {func(b *bed) {
			b.tree.Write("class/net/eth2/qos/pfc", "0 0 0 0 0 0 0 0")
			b.tree.Write("class/net/eth2/ecn/roce_np/enable/3", "0")
		}, Warning, "qos", "neither PFC nor ECN"},
		"no qos": {func(b *bed) { b.tree.Remove("class/net/eth2/qos") }, Note, "qos",
			"netlink (RTM_GETDCB) of eth2: operation not supported"},
		"dcb: nothing": {func(b *bed) { b.dcb(&dcb.Port{}) }, Note, "qos",
			"\nnetlink (RTM_GETDCB) of eth2; "},
		"no qos of a VF": {func(b *bed) {
			b.tree.Remove("class/net/eth2/qos")
			b.tree.Symlink("../0000:3b:00.1", bus+"physfn")
		}, Note, "qos", "of the physical function"},
		"dcb: all is well": {func(b *bed) {
			b.dcb(&dcb.Port{PFC: &dcb.PFC{Enabled: 1 << 3}, Apps: marks(), Class: &[8]uint8{3: 1}})
			b.tree.Write("class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=104")
		}, OK, "qos", "trust dscp, pfc 0 0 0 1 0 0 0 0, dscp_priority 0-7:0 8-15:1 16-23:2 24-31:3 32-39:4 40-47:5 " +
			"48-55:6 56-63:7, priority_class 0 0 0 1 0 0 0 0"},
		"dcb: the PCP": {func(b *bed) { b.dcb(&dcb.Port{PFC: &dcb.PFC{Enabled: 1 << 3}}) }, Warning, "qos",
			"dcb app add dev eth2 dscp-prio 26:3"},
		"dcb: a trust table": {func(b *bed) {
			b.dcb(&dcb.Port{PFC: &dcb.PFC{Enabled: 8}, Apps: marks(), Trust: []uint8{dcb.SelPCP}})
		}, Warning, "qos", "trusts the PCP"},
		"dcb: a trust table, the remedy": {func(b *bed) {
			b.dcb(&dcb.Port{PFC: &dcb.PFC{Enabled: 8}, Apps: marks(), Trust: []uint8{dcb.SelPCP}})
		}, Warning, "qos", "dcb apptrust set dev eth2 order dscp pcp"},
		"dcb: nothing is trusted": {func(b *bed) {
			b.dcb(&dcb.Port{PFC: &dcb.PFC{Enabled: 8}, Apps: marks(), Trust: []uint8{}})
		}, Warning, "qos", "the port trusts nothing, but RoCE v2 marks the DSCP"},
		"dcb: both are trusted, a class without PFC": {func(b *bed) {
			b.dcb(&dcb.Port{PFC: &dcb.PFC{Enabled: 8}, Apps: marks(), Trust: []uint8{dcb.SelDSCP, dcb.SelPCP}})
		}, Note, "qos", "--tclass 104    # DSCP 26 has priority 3"},
		"dcb: no PFC": {func(b *bed) { b.dcb(&dcb.Port{PFC: &dcb.PFC{}}) }, Note, "qos",
			"PFC is off for all priorities"},
		"dcb: no PFC, no ECN": {func(b *bed) {
			b.dcb(&dcb.Port{PFC: &dcb.PFC{}, Apps: marks()})
			b.tree.Write("class/net/eth2/ecn/roce_np/enable/3", "0")
		}, Warning, "qos", "neither PFC nor ECN"},
		"dcb: a class without PFC": {func(b *bed) { b.dcb(&dcb.Port{PFC: &dcb.PFC{Enabled: 1 << 3}, Apps: marks()}) },
			Note, "qos", "--tclass 104    # DSCP 26 has priority 3"},
		"dcb: another priority": {func(b *bed) { b.dcb(&dcb.Port{PFC: &dcb.PFC{Enabled: 1 << 5}, Apps: marks()}) },
			Note, "qos", "--tclass 160    # DSCP 40 has priority 5"},
		"dcb: the firmware decides": {func(b *bed) {
			mode := dcb.Adapter | 8
			b.dcb(&dcb.Port{PFC: &dcb.PFC{Enabled: 1}, Apps: marks(), Mode: &mode})
		}, OK, "qos", "dcbx firmware"},
		"dcb of a bond's adapter": {func(b *bed) {
			b.dcb(&dcb.Port{})
			b.port = map[string]*dcb.Port{"eth9": {PFC: &dcb.PFC{Enabled: 1 << 3}}, "eth2": {}}
			b.tree.Mkdir("devices/pci0000:3a/0000:3a:00.0/" + pci + "/net/eth9")
		}, Warning, "qos", "netlink (RTM_GETDCB) of eth9"},
		"filter of an adapter": {func(b *bed) { b.Rules = ruleset("type filter hook input priority 0; policy drop;") },
			Note,
			"firewall", "policy drop"},
		"filter of software": {func(b *bed) { b.rxe(); b.Rules = ruleset("udp dport 4791 drop") }, Warning, "firewall",
			"udp dport 4791 drop"},
		"filter that accepts": {func(b *bed) {
			b.rxe()
			b.Rules = ruleset(":INPUT DROP [0:0]\n-A INPUT -p udp --dport 4791 -j ACCEPT")
		}, OK, "firewall", "no rule"},
		"filter not readable": {func(b *bed) {
			b.Rules = func() (string, string, error) { return "", "", fs.ErrPermission }
		}, Note, "firewall", "nft list ruleset"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			tc.change(b)
			r := Examine(b.Host, "rdmaperf")
			for _, f := range r.Findings {
				if f.Check == tc.check && f.Severity == tc.want &&
					strings.Contains(f.Text+"\n"+f.Evidence+"\n"+f.Remedy, tc.text) {
					if f.Severity >= Warning && f.Remedy == "" && f.Check != "gid" {
						t.Errorf("no remedy: %+v", f)
					}
					return
				}
			}
			t.Errorf("no %v of %s with %q in %+v", tc.want, tc.check, tc.text, r.Findings)
		})
	}
}

// unlisted has libibverbs leave out mlx5_0, on Fedora.
func (b *bed) unlisted(providers ...loader.Provider) {
	b.info.Providers, b.info.Install = providers, "dnf install libibverbs"
	b.Unlisted = func() error {
		d := ibv.UnlistedDevice{Name: "mlx5_0", Driver: "mlx5_core", Reason: "reason"}
		return &ibv.UnlistedError{Devices: []ibv.UnlistedDevice{d}}
	}
}

// TestOneOfFour: a container that was given one device of four.
func TestOneOfFour(t *testing.T) {
	b := newBed(t)
	missing := []ibv.UnlistedDevice{}
	for i := 1; i < 4; i++ {
		name := fmt.Sprintf("mlx5_%d", i)
		b.tree.Device(name, fmt.Sprintf("pci0000:3a/0000:4%d:00.0", i), "mlx5_core", "0c42:a103:0065:1a2f")
		b.tree.Port(name, 1, "1: DOWN", "Ethernet", "2.5 Gb/sec (1X SDR)", 0)
		b.tree.Write(fmt.Sprintf("class/infiniband_verbs/uverbs%d/ibdev", i), name)
		missing = append(missing, ibv.UnlistedDevice{Name: name, Driver: "mlx5_core", Reason: "is missing"})
	}
	b.Unlisted = func() error { return &ibv.UnlistedError{Devices: missing} }
	b.Access = func(path string) error {
		switch filepath.Base(path) {
		case "uverbs1", "uverbs2":
			return &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
		case "uverbs3":
			return &fs.PathError{Op: "open", Path: path, Err: syscall.EPERM}
		}
		return nil
	}
	if r := Examine(b.Host, "rdmaperf"); r.Worst != Error {
		t.Errorf("on a host: %v", r.Worst)
	}
	b.Container = "/.dockerenv"
	r := Examine(b.Host, "rdmaperf")
	notes := 0
	for _, f := range r.Findings {
		if f.Text == "this container was not given the device" && f.Severity == Note {
			notes++
		}
	}
	if r.Worst > Note || notes != 3 || len(r.Devices) != 1 {
		t.Errorf("in a container: %v, %d notes: %+v", r.Worst, notes, r.Findings)
	}
}

// TestOneCause: a cause is reported once, though several checks meet it.
func TestOneCause(t *testing.T) {
	for name, err := range map[string]error{"missing": fs.ErrNotExist, "refused": fs.ErrPermission} {
		b := newBed(t)
		b.unlisted()
		b.Access = denied("uverbs0", err)
		n := 0
		r := Examine(b.Host, "rdmaperf")
		for _, f := range r.Findings {
			if f.Severity == Error {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: %d errors: %+v", name, n, r.Findings)
		}
	}
	// What libibverbs does not list cannot be opened, and librdmacm needs libibverbs.
	b := newBed(t)
	b.unlisted(loader.Provider{Name: "mlx5", Path: "/p"})
	b.open = errors.New("not listed")
	wantOnly(t, b, "provider")
	b = newBed(t)
	b.info.Libraries[0] = loader.LibraryInfo{Name: loader.IBVerbs, Error: "none", Remedy: "dnf"}
	b.info.Libraries[1] = loader.LibraryInfo{Name: loader.RDMACM, Error: "cannot open libibverbs.so.1", Remedy: "dnf"}
	wantOnly(t, b, "library")
}

// wantOnly examines a host that has one problem.
func wantOnly(t *testing.T, b *bed, check string) {
	t.Helper()
	var bad []Finding
	for _, f := range Examine(b.Host, "rdmaperf").Findings {
		if f.Severity >= Warning {
			bad = append(bad, f)
		}
	}
	if len(bad) != 1 || bad[0].Check != check {
		t.Errorf("want one problem of %s: %+v", check, bad)
	}
}

func denied(base string, err error) func(string) error {
	return func(path string) error {
		if filepath.Base(path) == base {
			return &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return nil
	}
}

func (b *bed) iommu(kind string) {
	b.tree.Mkdir("class/iommu/dmar0")
	b.tree.Symlink("../../../../kernel/iommu_groups/12", "devices/pci0000:3a/0000:3a:00.0/"+pci+"/iommu_group")
	b.tree.Write("kernel/iommu_groups/12/type", kind)
}

func (b *bed) rxe() {
	b.tree.Device("rxe0", "", "", "0c42:a103:0065:1a2f")
	b.tree.Port("rxe0", 1, "4: ACTIVE", "Ethernet", "2.5 Gb/sec (1X SDR)", 0)
}

func ruleset(text string) func() (string, string, error) {
	return func() (string, string, error) { return text, "[nft list ruleset]", nil }
}

func TestPrint(t *testing.T) {
	b := newBed(t)
	b.tree.Write(dev+"fw_ver", "28\x1b[2J")
	b.mtus[1] = 1024
	r := Examine(b.Host, "rdmaperf")
	var short, all, object bytes.Buffer
	if err := errors.Join(r.Text(&short, false), r.Text(&all, true), r.JSON(&object)); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{short.String(), all.String(), object.String()} {
		if strings.Contains(s, "\x1b") || !strings.Contains(s, "1024, although 4096 fits") {
			t.Errorf("%q", s)
		}
	}
	if strings.Contains(short.String(), "is not chosen") || !strings.Contains(all.String(), "is not chosen") ||
		!strings.Contains(short.String(), "0 errors, 1 warnings, ") {
		t.Errorf("%s\n%s", &short, &all)
	}
	if p, err := parsePeer(object.Bytes()); err != nil || p.Hostname != "node1" || p.Worst != Warning ||
		p.Devices[0].Links[0].MTU != 1024 || p.Devices[0].Model != "ConnectX-6 Dx" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestCompare(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(b *bed)
		want   Severity
		text   string
	}{
		"alike":     {func(b *bed) {}, OK, "matches mlx5_0/1 at node1"},
		"MTU":       {func(b *bed) { b.mtus[1] = 1024 }, Warning, "the active MTUs differ"},
		"their own": {func(b *bed) { b.mtus[1] = 1024 }, Warning, "has its own findings"},
		"down":      {func(b *bed) { b.tree.Write(dev+"ports/1/state", "1: DOWN") }, Error, "has no ACTIVE port"},
		"link layer": {func(b *bed) { b.tree.Write(dev+"ports/1/link_layer", "InfiniBand") }, Error,
			"the link layers differ"},
		"rate": {func(b *bed) { b.tree.Write(dev+"ports/1/rate", "25 Gb/sec (1X EDR)") }, Note,
			"the rates differ"},
		"firmware":     {func(b *bed) { b.tree.Write(dev+"fw_ver", "20.1.1") }, Note, "20.1.1 of mlx5_0/1 at node1"},
		"kernel":       {func(b *bed) { b.proc("sys/kernel/osrelease", "5.15\n") }, Note, "5.15 at node1"},
		"flow control": {func(b *bed) { b.tree.Write("class/net/eth2/qos/trust", "pcp") }, Warning, "trust differs"},
		"PFC by netlink": {func(b *bed) { b.dcb(&dcb.Port{PFC: &dcb.PFC{Enabled: 1 << 4}, Apps: marks()}) }, Warning,
			"0 0 0 1 0 0 0 0 of mlx5_0/1 here, 0 0 0 0 1 0 0 0 of mlx5_0/1 at node1"},
		"GID type": {func(b *bed) {
			b.tree.GID("mlx5_0", 1, 0, local, sysfstest.V1, "eth2")
			b.tree.GID("mlx5_0", 1, 3, v4, sysfstest.V1, "eth2")
		}, Error, "RoCEv2 of mlx5_0/1 here, RoCEv1 of mlx5_0/1 at node1"},
		"family": {func(b *bed) {
			b.tree.GID("mlx5_0", 1, 3, "2001:0db8:0000:0000:0000:0000:0000:0001", sysfstest.V2, "eth2")
		}, Error, "10.10.10.1 of mlx5_0/1 here, 2001:db8::1 of mlx5_0/1 at node1"},
		"no GID": {func(b *bed) {
			b.tree.Remove(dev + "ports/1/gids/0")
			b.tree.Remove(dev + "ports/1/gids/3")
		}, Error, "no GID that can be used"},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := newBed(t), newBed(t)
			tc.change(there)
			var b bytes.Buffer
			if err := Examine(there.Host, "rdmaperf").JSON(&b); err != nil {
				t.Fatal(err)
			}
			p, err := parsePeer(b.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			r := Examine(here.Host, "rdmaperf")
			r.Compare(p)
			for _, f := range r.Findings {
				if f.Check == "peer" && f.Severity == tc.want && strings.Contains(f.Text+"\n"+f.Evidence, tc.text) {
					return
				}
			}
			t.Errorf("no %v with %q in %+v", tc.want, tc.text, r.Findings)
		})
	}
}

func TestSeverity(t *testing.T) {
	for s := OK; s <= Error; s++ {
		b, _ := json.Marshal(s)
		var back Severity
		if err := json.Unmarshal(b, &back); err != nil || back != s {
			t.Errorf("%v became %s, then %v, %v", s, b, back, err)
		}
	}
	if s := fmt.Sprint(Severity(17)); s != "Severity(17)" {
		t.Error(s)
	}
}
