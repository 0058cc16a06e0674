package nics

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

// pci adds a PCI device at a path below /sys/devices.
func pci(tr *sysfstest.Tree, path, class, vendor, node string) (address string) {
	address = path[strings.LastIndexByte(path, '/')+1:]
	at := "devices/" + path + "/"
	tr.Write(at+"class", class)
	tr.Write(at+"vendor", vendor)
	tr.Write(at+"numa_node", node)
	tr.Symlink("../../../devices/"+path, "bus/pci/devices/"+address)
	return address
}

// nic adds an RDMA device at a path; states are those of its ports.
func nic(tr *sysfstest.Tree, name, path, node, link string, states ...string) {
	at := "devices/" + path
	pci(tr, path, "0x020700", "0x15b3", node)
	for i, s := range states {
		port := fmt.Sprintf("%s/infiniband/%s/ports/%d/", at, name, i+1)
		tr.Write(port+"state", s)
		tr.Write(port+"link_layer", link)
		tr.Write(port+"rate", "400 Gb/sec (4X NDR)")
	}
	tr.Symlink("../../../"+path[strings.LastIndexByte(path, '/')+1:], at+"/infiniband/"+name+"/device")
	tr.Symlink("../../"+at+"/infiniband/"+name, "class/infiniband/"+name)
}

const active, down = "4: ACTIVE", "1: DOWN"

// host is a server with two sockets. Each has two switches, with a GPU and a NIC below each; another NIC is at the
// second socket itself. The display of its management is no GPU.
func host(t *testing.T) (*sysfstest.Tree, hostfacts.Host) {
	tr := sysfstest.New(t)
	for i, b := range []string{"pci0000:10/0000:10:01.0/0000:11:00.0/", "pci0000:20/0000:20:01.0/0000:21:00.0/",
		"pci0000:80/0000:80:01.0/0000:81:00.0/", "pci0000:90/0000:90:01.0/0000:91:00.0/"} {
		bus, node := fmt.Sprintf("0000:%d2:", i+1), fmt.Sprint(i/2)
		pci(tr, b+bus+"00.0", "0x030200", "0x10de", node)
		// In the order of the bus, the NICs are the other way round.
		nic(tr, fmt.Sprint("mlx5_", 10-i), b+bus+"01.0", node, sysfs.LinkInfiniBand, active)
	}
	nic(tr, "mlx5_0", "pci0000:99/0000:99:00.0", "1", sysfs.LinkEthernet, active, down)
	pci(tr, "pci0000:00/0000:00:02.0", "0x030000", "0x1a03", "0")
	return tr, hostfacts.Host{Sys: tr.Root}
}

func names(list []NIC) string {
	var s []string
	for _, n := range list {
		s = append(s, n.Name())
	}
	return strings.Join(s, " ")
}

// TestFind: all ports by name, lists in their order, and what is wrong with others.
func TestFind(t *testing.T) {
	_, root := host(t)
	for _, tc := range []struct {
		text string
		port uint8
		want string
	}{
		{"all", 0, "mlx5_0 mlx5_0:2 mlx5_7 mlx5_8 mlx5_9 mlx5_10"},
		{"all", 1, "mlx5_0 mlx5_7 mlx5_8 mlx5_9 mlx5_10"},
		{"all", 2, "mlx5_0:2"},
		{"all", 3, "no device here has a port 3"},
		{"gpu", 0, "mlx5_7 mlx5_8 mlx5_9 mlx5_10"},
		{"mlx5_10,mlx5_0:2", 0, "mlx5_10 mlx5_0:2"},
		{"mlx5_0", 2, "mlx5_0:2"},
		{"mlx5_0,nonsense", 0, `"nonsense" is not there; there are: mlx5_0, mlx5_7, mlx5_8, mlx5_9, mlx5_10`},
		{"mlx5_0:3", 0, "has no port 3, but 2"},
		{"mlx5_0:x", 0, "number of a port"},
		{"mlx5_0,mlx5_0:1", 0, "there twice"},
		{"mlx5_0,", 0, "number 2 has no name"},
		{"mlx5_0,all", 0, "not a part of a list"},
		{strings.Repeat("a,", 64) + "a", 0, "twice"},
	} {
		list, err := Find(root, tc.text, tc.port)
		got := names(list)
		if err != nil {
			got = err.Error()
		}
		if got != tc.want && (err == nil || !strings.Contains(got, tc.want)) {
			t.Errorf("%.40s, port %d: %s, want %s", tc.text, tc.port, got, tc.want)
		}
	}
	list, err := Find(root, "all", 0)
	if err != nil || list[0].Link != sysfs.LinkEthernet || list[0].Down != "" || list[0].Rate != 400e9 ||
		list[1].Down != "mlx5_0 port 2 is DOWN, not active" || list[2].Link != sysfs.LinkInfiniBand {
		t.Errorf("%+v, %v", list, err)
	}
	none := hostfacts.Host{Sys: sysfstest.New(t).Root}
	for _, text := range []string{"all", "gpu", "a,b"} {
		var unknown *UnknownError
		if _, err := Find(none, text, 0); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "is empty") {
			t.Errorf("%s without devices: %v", text, err)
		}
	}
}

// TestGPU: each GPU has the NIC below its switch; if that is down the next one, by the number of bridges and then by
// the socket. NICs that are as near are shared out. A host without GPUs, or without adapters on PCI, says so.
func TestGPU(t *testing.T) {
	tr, root := host(t)
	want := func(what, text string) {
		t.Helper()
		list, err := Find(root, "gpu", 0)
		got := names(list)
		if err != nil {
			got = err.Error()
		}
		if got != text {
			t.Errorf("%s: %s, want %s", what, got, text)
		}
	}
	tr.Write("devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:32:01.0/infiniband/mlx5_8/ports/1/state", down)
	want("a NIC is down", "mlx5_0 mlx5_7 mlx5_9 mlx5_10")
	pci(tr, "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:05.0", "0x030200", "0x10de", "0")
	want("two GPUs have one NIC", "mlx5_0 mlx5_7 mlx5_9 mlx5_10")
	nic(tr, "mlx5_11", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:07.0", "0", sysfs.LinkInfiniBand, active)
	want("two GPUs share two NICs", "mlx5_0 mlx5_7 mlx5_9 mlx5_10 mlx5_11")
	pci(tr, "pci0000:a0/0000:a0:01.0", "0x030000", "0x10de", "1")
	want("a workstation's GPU at a bus of its own", "mlx5_0 mlx5_7 mlx5_9 mlx5_10 mlx5_11")
	tr2 := sysfstest.New(t)
	root = hostfacts.Host{Sys: tr2.Root}
	nic(tr2, "mlx5_0", "pci0000:99/0000:99:00.0", "1", sysfs.LinkEthernet, active)
	want("no GPU", "-d gpu: no GPU is on the PCI bus of this host")
}
