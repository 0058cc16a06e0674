package sysfs

import (
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

// maxNetdev is the longest name of an interface.
// C: IFNAMSIZ - 1.
const maxNetdev = 15

// Netdev is a network interface as described by sysfs.
type Netdev struct {
	Name      string
	Index     int
	OperState string // up, down, unknown, lowerlayerdown, ...
	Flags     uint32 // IFF_UP = 1, ...
	MTU       int
	Address   string
	VLAN      bool
	Kind      string // what the kernel calls it: vlan, vxlan, bond, ...; empty for most
	Master    string // bond, bridge or team it belongs to

	Unread []*fs.PathError // what could not be read
}

// Up reports whether the interface can carry traffic: it is enabled, and its link is up or, for
// kinds that do not report it, unknown.
func (n Netdev) Up() bool {
	return n.Flags&1 != 0 && (n.OperState == "up" || n.OperState == "unknown")
}

// Netdev reads one interface. ok is false if this network namespace has none of that name.
func (r Root) Netdev(name string) (n Netdev, ok bool) {
	if !validName(name) || len(name) > maxNetdev {
		return Netdev{}, false
	}
	d, err := openDir(r.path("class", "net", name))
	if err != nil {
		return Netdev{}, false
	}
	defer d.close()
	var unread []*fs.PathError
	d.unread = &unread
	n = Netdev{Name: name, OperState: d.text("operstate"), Address: d.text("address")}
	n.Index = int(d.bounded("ifindex", 1, math.MaxInt32, "a number from 1 on"))
	n.Flags = uint32(d.bounded("flags", 0, math.MaxUint32, "a number of 32 bits"))
	n.MTU = int(d.bounded("mtu", 1, math.MaxInt32, "a number from 1 on"))
	for line := range strings.Lines(d.text("uevent")) {
		if kind, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVTYPE="); ok {
			n.Kind, n.VLAN = kind, kind == "vlan"
		}
	}
	if link, err := d.readlink("master"); err == nil {
		n.Master = filepath.Base(link)
	}
	n.Unread = unread
	return n, true
}

// Below reports whether a network interface belongs to the same function of the bus as an RDMA device, as those of
// InfiniBand do, which no GID names.
func (r Root) Below(netdev, device string) bool {
	names, err := r.Names("class", "net", netdev, "device", "infiniband")
	return err == nil && slices.Contains(names, device)
}

// BelowPort is Below for a port, where the interface tells its own.
func (r Root) BelowPort(netdev, device string, port int) bool {
	n, ok := r.Number("class", "net", netdev, "dev_port")
	return r.Below(netdev, device) && (!ok || int(n) == port-1)
}
