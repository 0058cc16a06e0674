package hostfacts

import (
	"slices"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// Netdev is a network interface.
type Netdev struct {
	Name      string `json:"name"`
	Index     int    `json:"index"`
	OperState string `json:"operstate"` // up, down, unknown, lowerlayerdown
	Flags     uint32 `json:"flags"`     // IFF_UP = 1, ...
	MTU       int    `json:"mtu_bytes"` // 0 if it is not known
	Address   string `json:"address"`   // the MAC
	VLAN      bool   `json:"vlan"`
	Kind      string `json:"kind"`   // what the kernel calls it: vlan, vxlan, bond; empty for most
	Master    string `json:"master"` // the bond, bridge or team that it belongs to

	Missing []Missing `json:"missing,omitempty"` // what could not be read
}

// Up reports whether the interface can carry traffic: it is enabled, and its link is up or, for kinds that do not
// report it, unknown.
func (n *Netdev) Up() bool { return (sysfs.Netdev{Flags: n.Flags, OperState: n.OperState}).Up() }

// Netdev reads one interface. ok is false if this network namespace has none of that name.
func (h Host) Netdev(name string) (n Netdev, ok bool) {
	d, ok := h.sys().Netdev(name)
	return netdevOf(&d), ok
}

func netdevOf(d *sysfs.Netdev) Netdev {
	return Netdev{Name: d.Name, Index: d.Index, OperState: d.OperState, Flags: d.Flags, MTU: d.MTU, Address: d.Address,
		VLAN: d.VLAN, Kind: d.Kind, Master: d.Master, Missing: missing(d.Unread)}
}

// Netdevs returns the interfaces of a device's own function, sorted. A GID may name another: a bond or a VLAN above it.
func (h Host) Netdevs(device string) []string {
	names, _ := h.sys().Names("class", "infiniband", device, "device", "net")
	slices.Sort(names)
	return names
}
