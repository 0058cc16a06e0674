// Package sysfstest builds fake trees of sysfs for tests.
package sysfstest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tree is a fake /sys in a temporary directory.
type Tree struct {
	Root string
	t    testing.TB
}

// New returns a tree without devices.
func New(t testing.TB) *Tree {
	tr := &Tree{Root: t.TempDir(), t: t}
	tr.Mkdir("class/infiniband")
	return tr
}

func (tr *Tree) check(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

// Mkdir makes a directory with its parents.
func (tr *Tree) Mkdir(path string) {
	tr.t.Helper()
	tr.check(os.MkdirAll(filepath.Join(tr.Root, path), 0o755))
}

// Write makes a file, with a line end as the kernel writes it.
func (tr *Tree) Write(path, text string) {
	tr.t.Helper()
	tr.Mkdir(filepath.Dir(path))
	tr.check(os.WriteFile(filepath.Join(tr.Root, path), []byte(text+"\n"), 0o644))
}

// Symlink makes a symbolic link.
func (tr *Tree) Symlink(target, path string) {
	tr.t.Helper()
	tr.Mkdir(filepath.Dir(path))
	tr.check(os.Symlink(target, filepath.Join(tr.Root, path)))
}

// Remove removes a file, or a directory and its contents.
func (tr *Tree) Remove(path string) {
	tr.t.Helper()
	tr.check(os.RemoveAll(filepath.Join(tr.Root, path)))
}

// Netdev makes an interface. flags is in hex, as in sysfs.
func (tr *Tree) Netdev(name, operstate, flags string, index, mtu int, devtype string) {
	tr.t.Helper()
	dir := "class/net/" + name + "/"
	tr.Write(dir+"operstate", operstate)
	tr.Write(dir+"flags", flags)
	tr.Write(dir+"ifindex", fmt.Sprint(index))
	tr.Write(dir+"mtu", fmt.Sprint(mtu))
	tr.Write(dir+"address", "0c:42:a1:00:00:01")
	uevent := fmt.Sprintf("INTERFACE=%s\nIFINDEX=%d", name, index)
	if devtype != "" {
		uevent = "DEVTYPE=" + devtype + "\n" + uevent
	}
	tr.Write(dir+"uevent", uevent)
}

// Device makes a device without ports. pci is the path of its function below
// devices, "" for a software device.
func (tr *Tree) Device(name, pci, driver, nodeGUID string) {
	tr.t.Helper()
	dir := "devices/virtual/infiniband/" + name + "/"
	if pci != "" {
		dir = "devices/" + pci + "/infiniband/" + name + "/"
		tr.Symlink("../../../"+filepath.Base(pci), dir+"device")
		tr.Symlink("../bus/drivers/"+driver, "devices/"+pci+"/driver")
		tr.Write("devices/"+pci+"/numa_node", "1")
	}
	tr.Write(dir+"node_type", "1: CA")
	tr.Write(dir+"node_guid", nodeGUID)
	tr.Write(dir+"sys_image_guid", nodeGUID)
	tr.Write(dir+"fw_ver", "28.43.1014")
	tr.Symlink("../../"+dir, "class/infiniband/"+name)
}

// Port makes a port with size empty GIDs.
func (tr *Tree) Port(dev string, port int, state, link, rate string, size int) {
	tr.t.Helper()
	dir := fmt.Sprintf("class/infiniband/%s/ports/%d/", dev, port)
	tr.Write(dir+"state", state)
	tr.Write(dir+"phys_state", "5: LinkUp")
	tr.Write(dir+"link_layer", link)
	tr.Write(dir+"rate", rate)
	tr.Write(dir+"lid", "0x11")
	tr.Write(dir+"sm_lid", "0x1")
	tr.Mkdir(dir + "gid_attrs/types")
	tr.Mkdir(dir + "gid_attrs/ndevs")
	for i := range size {
		tr.GID(dev, port, i, "0000:0000:0000:0000:0000:0000:0000:0000", "", "")
	}
}

// GID sets one GID. The kernel returns EINVAL for an attribute that does not apply; here the file
// is missing if typ or netdev is "".
func (tr *Tree) GID(dev string, port, index int, gid, typ, netdev string) {
	tr.t.Helper()
	dir := fmt.Sprintf("class/infiniband/%s/ports/%d/", dev, port)
	tr.Write(fmt.Sprintf("%sgids/%d", dir, index), gid)
	if typ != "" {
		tr.Write(fmt.Sprintf("%sgid_attrs/types/%d", dir, index), typ)
	}
	if netdev != "" {
		tr.Write(fmt.Sprintf("%sgid_attrs/ndevs/%d", dir, index), netdev)
	}
}

// Addresses writes the addresses of the tree's network namespace: lines of "NETDEV ADDRESS/PREFIX [FLAG...]".
func (tr *Tree) Addresses(lines ...string) {
	tr.t.Helper()
	var b strings.Builder
	for i, line := range lines {
		netdev, rest, _ := strings.Cut(line, " ")
		family := "inet"
		if strings.Contains(rest, ":") {
			family = "inet6"
		}
		// as ip -o addr prints it
		fmt.Fprintf(&b, "%d: %s    %s %s scope global %s\\       valid_lft forever preferred_lft forever\n", i+2,
			netdev, family, rest, netdev)
	}
	tr.Write("addresses", b.String())
}

// IPoIB makes an interface of a port of an InfiniBand device on PCI.
func (tr *Tree) IPoIB(name, pci string, port int) {
	tr.t.Helper()
	tr.Netdev(name, "up", "0x1003", 20+port, 2044, "")
	tr.Write("class/net/"+name+"/dev_port", fmt.Sprint(port-1))
	tr.Symlink("../../../devices/"+pci, "class/net/"+name+"/device")
}

// The texts of the kernel for the types of GIDs.
const (
	V1 = "IB/RoCE v1"
	V2 = "RoCE v2"
)

// Standard returns a tree with three devices: mlx5_0 on Ethernet with v1 and
// v2, IPv4, IPv6, a VLAN and one entry that cannot be read; mlx5_2 on
// InfiniBand; mlx5_10 on Ethernet, its link down.
func Standard(t testing.TB) *Tree {
	tr := New(t)
	tr.Netdev("eth2", "up", "0x1003", 4, 9000, "")
	tr.Netdev("eth2.100", "up", "0x1003", 9, 1500, "vlan")
	tr.Netdev("eth10", "down", "0x1003", 12, 1500, "")

	const d0 = "mlx5_0"
	tr.Device(d0, "pci0000:3a/0000:3a:00.0/0000:3b:00.0", "mlx5_core", "0c42:a103:0065:1a2e")
	tr.Port(d0, 1, "4: ACTIVE", "Ethernet", "100 Gb/sec (4X EDR)", 16)
	for i, g := range []string{
		"fe80:0000:0000:0000:0e42:a1ff:fe65:1a2e",
		"0000:0000:0000:0000:0000:ffff:0a0a:0a01",
		"0000:0000:0000:0000:0000:ffff:0a0a:6401",
		"2001:0db8:0000:0000:0000:0000:0000:0001",
	} {
		netdev := "eth2"
		if i == 2 {
			netdev = "eth2.100"
		}
		tr.GID(d0, 1, 2*i, g, V1, netdev)
		tr.GID(d0, 1, 2*i+1, g, V2, netdev)
	}
	tr.GID(d0, 1, 10, "0000:0000:0000:0000:0000:ffff:0a0a:0a02", V2, "eth2")
	tr.Remove("class/infiniband/mlx5_0/ports/1/gids/9")
	tr.Mkdir("class/infiniband/mlx5_0/ports/1/gids/9")

	const d2 = "mlx5_2"
	tr.Device(d2, "pci0000:80/0000:80:01.0/0000:81:00.0", "mlx5_core", "0c42:a103:0065:1a30")
	tr.Port(d2, 1, "4: ACTIVE", "InfiniBand", "400 Gb/sec (4X NDR)", 8)
	tr.GID(d2, 1, 0, "fe80:0000:0000:0000:0c42:a103:0065:1a30", V1, "")
	tr.GID(d2, 1, 1, "fe80:0000:0000:0000:0000:0000:0000:0000", V1, "")
	tr.Port(d2, 2, "2: INIT", "InfiniBand", "10 Gb/sec (4X SDR)", 8)
	tr.GID(d2, 2, 0, "fec0:0000:0000:0001:0c42:a103:0065:1a31", V1, "")

	const d10 = "mlx5_10"
	tr.Device(d10, "pci0000:80/0000:80:02.0/0000:82:00.0/mlx5_core.sf.4", "mlx5_core.sf", "0c42:a103:0065:1a40")
	for _, p := range []int{2, 10} {
		tr.Port(d10, p, "1: DOWN", "Ethernet", "40 Gb/sec (4X QDR)", 4)
		tr.GID(d10, p, 0, "fe80:0000:0000:0000:0e42:a1ff:fe65:1a40", V1, "eth10")
		tr.GID(d10, p, 1, "fe80:0000:0000:0000:0e42:a1ff:fe65:1a40", V2, "eth10")
		tr.GID(d10, p, 2, "0000:0000:0000:0000:0000:0000:0a00:0001", V2, "eth10")
	}
	for i, dev := range []string{d0, d2, d10} {
		tr.Write(fmt.Sprintf("class/infiniband_verbs/uverbs%d/ibdev", i), dev)
	}
	return tr
}

// Large returns a tree with that many devices of one port each. All GIDs of
// the tables are in use.
func Large(t testing.TB, devices, gids int) *Tree {
	tr := New(t)
	for d := range devices {
		dev, net := fmt.Sprintf("mlx5_%d", d), fmt.Sprintf("eth%d", d)
		tr.Netdev(net, "up", "0x1003", d+2, 9000, "")
		tr.Device(dev, fmt.Sprintf("pci0000:00/0000:%02x:00.0", d), "mlx5_core", "0c42:a103:0065:1a2e")
		tr.Port(dev, 1, "4: ACTIVE", "Ethernet", "100 Gb/sec (4X EDR)", 0)
		for i := range gids {
			tr.GID(dev, 1, i, fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a%02x:%02x%02x", d&255, i>>8&255,
				i&255), V2, net)
		}
	}
	return tr
}
