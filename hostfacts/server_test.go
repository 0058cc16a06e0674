package hostfacts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

// fixture is a tree of sysfs and one of procfs: a server with two sockets, each with a switch of PCIe that has a GPU
// and an adapter below it. mlx5_0 is RoCE with a bond, mlx5_1 is InfiniBand, rxe_0 is software.
type fixture struct {
	*sysfstest.Tree
	Proc string
	t    testing.TB
}

// newFixture returns a server on which every file of a description is there.
func newFixture(t testing.TB) *fixture {
	s := &fixture{sysfstest.New(t), t.TempDir(), t}
	for i, bus := range []string{"pci0000:10/0000:10:01.0/0000:11:00.0", "pci0000:80/0000:80:01.0/0000:81:00.0"} {
		node := fmt.Sprint(i)
		s.function("pci0000:"+bus[8:10]+"/0000:"+bus[8:10]+":01.0", "0x060400", "0x8086", "0x1234", node)
		s.function(bus, "0x060400", "0x1000", "0xc030", node)
		s.function(fmt.Sprintf("%s/0000:%d2:00.0", bus, i+1), "0x030200", "0x10de", "0x2330", node)
		s.function(fmt.Sprintf("%s/0000:%d2:01.0", bus, i+1), "0x020700", "0x15b3", "0x1021", node)
		s.Write("devices/system/node/node"+node+"/cpulist", fmt.Sprintf("%d-%d", 2*i, 2*i+1))
	}
	for cpu := range 4 {
		s.Write(fmt.Sprintf("devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu), "performance")
	}
	s.Mkdir("class/iommu/dmar0")
	s.Netdev("eth2", "up", "0x1003", 4, 9000, "")
	s.Netdev("bond0", "up", "0x1403", 5, 9000, "bond")
	s.Symlink("../bond0", "class/net/eth2/master")
	s.adapter(0, "mlx5_0", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0", "Ethernet", "400 Gb/sec (4X NDR)")
	s.GID("mlx5_0", 1, 0, "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", sysfstest.V1, "bond0")
	s.GID("mlx5_0", 1, 1, "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", sysfstest.V2, "bond0")
	s.GID("mlx5_0", 1, 2, "0000:0000:0000:0000:0000:ffff:0a00:0001", sysfstest.V1, "bond0")
	s.GID("mlx5_0", 1, 3, "0000:0000:0000:0000:0000:ffff:0a00:0001", sysfstest.V2, "bond0")
	s.Write("kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode", sysfstest.V2)
	s.adapter(1, "mlx5_1", "pci0000:80/0000:80:01.0/0000:81:00.0/0000:22:01.0", "InfiniBand", "200 Gb/sec (2X NDR)")
	s.GID("mlx5_1", 1, 0, "fec0:0000:0000:0001:0c42:a103:0065:1a31", sysfstest.V1, "")
	s.Write("class/infiniband/mlx5_1/ports/1/pkeys/0", "0xffff")
	s.Write("class/infiniband/mlx5_1/ports/1/pkeys/1", "0x8001")
	s.Write("class/infiniband/mlx5_1/ports/1/pkeys/2", "0x0000")
	s.Device("rxe_0", "", "", "0242:acff:fe11:0002")
	s.Port("rxe_0", 1, "1: DOWN", "Ethernet", "2.5 Gb/sec (1X SDR)", 2)
	s.Write("class/infiniband_verbs/uverbs2/ibdev", "rxe_0")
	s.Addresses("bond0 10.0.0.1/24", "bond0 fe80::e42:a1ff:fe00:1/64", "lo 127.0.0.1/8")

	s.File("sys/kernel/hostname", "node1")
	s.File("sys/kernel/osrelease", "6.8.0-31-generic")
	s.File("self/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"+
		"Max locked memory         8388608              8388608              bytes     ")
	s.File("self/uid_map", "         0          0 4294967295")
	s.File("self/status", "Name:\tagent\nCapEff:\t0000000000004000")
	s.File("self/cgroup", "0::/kubepods/pod1")
	s.Write("fs/cgroup/kubepods/rdma.max", "mlx5_0 hca_handle=2 hca_object=max\nmlx5_1 hca_handle=max hca_object=max")
	return s
}

// File makes a file of procfs.
func (s *fixture) File(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.Proc, name)
	made := os.MkdirAll(filepath.Dir(path), 0o755)
	if err := errors.Join(made, os.WriteFile(path, []byte(text+"\n"), 0o644)); err != nil {
		s.t.Fatal(err)
	}
}

// function makes a PCI function at a path below devices.
func (s *fixture) function(path, class, vendor, device, node string) {
	at := "devices/" + path + "/"
	for name, text := range map[string]string{"class": class, "vendor": vendor, "device": device, "numa_node": node,
		"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe", "current_link_width": "16",
		"max_link_width": "16"} {
		s.Write(at+name, text)
	}
	s.Symlink("../../../devices/"+path, "bus/pci/devices/"+filepath.Base(path))
}

// adapter makes an RDMA device at a PCI function.
func (s *fixture) adapter(i int, name, path, link, rate string) {
	node := fmt.Sprint(i)
	s.Device(name, path, "mlx5_core", "0c42:a103:0065:1a3"+node)
	s.Write("devices/"+path+"/numa_node", node)
	class := "class/infiniband/" + name + "/"
	for file, text := range map[string]string{"node_desc": "node1 " + name, "hca_type": "MT4129",
		"board_id": "MT_0000000838", "sys_image_guid": "0c42:a103:0065:1a3" + node} {
		s.Write(class+file, text)
	}
	s.Port(name, 1, "4: ACTIVE", link, rate, 0)
	for file, text := range map[string]string{"counters/port_xmit_data": "1000", "counters/symbol_error": "0",
		"hw_counters/out_of_sequence": "3", "hw_counters/lifespan": "10"} {
		s.Write(class+"ports/1/"+file, text)
	}
	s.Write("class/infiniband_verbs/uverbs"+node+"/ibdev", name)
	s.Symlink("../../kernel/iommu_groups/"+node, "devices/"+path+"/iommu_group")
	s.Write("kernel/iommu_groups/"+node+"/type", []string{"DMA", "identity"}[i])
	bridge := strings.Split(path, "/")[2]
	config := make([]byte, 0x108) // ACS, with the redirection of requests at the first socket
	config[0x100], config[0x106] = 0x0d, []byte{4, 0}[i]
	s.Write("bus/pci/devices/"+bridge+"/config", string(config))
}
