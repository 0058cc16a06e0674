// Package netview tells what this network namespace has of the interfaces behind a device's GIDs.
//
// Linux lists each GID of a device to everybody. Those of interfaces in other namespaces are among them, by names that
// other interfaces may have here. So a GID counts only if the interface here has its address.
package netview

import (
	"net/netip"

	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// View has the addresses of one moment. It is not safe for concurrent use.
type View struct {
	root    sysfs.Root
	addrs   addresses // the zero value: not known
	netdevs map[string]*sysfs.Netdev
	route   string
}

// Foreign returns a view of a tree of another network namespace. Its addresses are not known.
func Foreign(root sysfs.Root) *View { return &View{root: root, netdevs: map[string]*sysfs.Netdev{}} }

// New reads the addresses of this network namespace. For a copy of sysfs they are those in its file "addresses", which
// has the output of ip -o addr.
func New(root sysfs.Root) *View {
	v := Foreign(root)
	if root.Live() {
		v.addrs, _ = readAddresses()
	} else if text, err := root.File("addresses"); err == nil {
		v.addrs = parseAddresses(text)
		names, _ := root.Names("class", "net") // also those without an address
		for _, name := range names {
			if n := v.Netdev(name); n != nil {
				v.addrs.macs[name] = n.Address
			}
		}
	}
	return v
}

// By tells that the peer is reached by this interface.
func (v *View) By(netdev string) { v.route = netdev }

// Netdev returns a network interface, nil if this namespace has none of that name.
func (v *View) Netdev(name string) *sysfs.Netdev {
	n, ok := v.netdevs[name]
	if !ok && name != "" {
		if d, ok := v.root.Netdev(name); ok {
			n = &d
		}
		v.netdevs[name] = n
	}
	return n
}

// Candidate returns the entry of a GID table as one to choose from.
func (v *View) Candidate(e *sysfs.GIDEntry, active bool) gid.Candidate {
	c := gid.Candidate{GID: e.GID, Index: e.Index, Type: e.Type, PortActive: active, Above: v.kind(e.Netdev)}
	if e.Type != gid.TypeIB && e.Netdev != "" {
		c.Address = v.address(e)
		c.OffRoute = v.route != "" && v.route != e.Netdev
	}
	if n := v.Netdev(e.Netdev); n != nil && c.Address != gid.AddressNone {
		c.Netdev = gid.LinkDown
		if n.Up() {
			c.Netdev = gid.LinkUp
		}
	}
	return c
}

// Network returns the network of the address of a GID of RoCE, the zero Prefix if it is not known.
func (v *View) Network(e *sysfs.GIDEntry) netip.Prefix {
	if n, ok := v.addrs.bits[address{e.Netdev, e.GID.Addr()}]; ok {
		p, _ := e.GID.Addr().Prefix(n)
		return p
	}
	return netip.Prefix{}
}

// Uses reports whether the traffic of a GID goes by an interface. A GID of InfiniBand names none: IPoIB's is that of
// the device's function and port.
func (v *View) Uses(device string, port int, e *sysfs.GIDEntry, netdev string) bool {
	if e.Netdev == "" {
		return v.root.BelowPort(netdev, device, port)
	}
	return e.Netdev == netdev
}

// From reports whether traffic from an address of this host goes by a GID: that address is the GID, or that of IPoIB on
// its port.
func (v *View) From(device string, port int, e *sysfs.GIDEntry, source netip.Addr) bool {
	if e.Type != gid.TypeIB {
		return e.GID.Addr() == source
	}
	for a := range v.addrs.states {
		if a.ip == source && v.root.BelowPort(a.netdev, device, port) {
			return true
		}
	}
	return false
}

func (v *View) address(e *sysfs.GIDEntry) gid.Address {
	if v.addrs.states == nil {
		return gid.AddressUnknown
	}
	if a, ok := v.addrs.states[address{e.Netdev, e.GID.Addr()}]; ok {
		return a
	}
	switch byMAC := e.GID != (sysfs.GID{}) && linkLocal(v.addrs.macs[e.Netdev]) == e.GID; {
	case byMAC && e.Type == gid.TypeRoCEv1:
		return gid.AddressUnknown // peers take the MAC from it, and ask for no address
	case byMAC: // the table of each interface and bond has it, whatever their addresses are
		return gid.AddressDefault
	}
	return gid.AddressNone
}

// kinds are the kinds of interfaces that lie above others, as the kernel calls them.
var kinds = map[string]string{"vlan": "VLAN", "vxlan": "VXLAN", "geneve": "Geneve tunnel", "bareudp": "tunnel",
	"macvlan": "macvlan", "macvtap": "macvtap", "ipvlan": "ipvlan", "bridge": "bridge", "macsec": "MACsec"}

// kind returns the kind of an interface that lies above the device's own, and "" for that and its bond.
func (v *View) kind(netdev string) string {
	if n := v.Netdev(netdev); n != nil {
		return kinds[n.Kind]
	}
	return ""
}
