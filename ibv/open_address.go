package ibv

import (
	"fmt"
	"net/netip"

	"github.com/pureverbs/pureverbs/internal/printable"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// OpenAddr opens the RoCE device that has an IP address of this host, and returns the GID of that address, whose port
// and index are arguments of Endpoint. Of several GIDs it is the best, as BestGID chooses. A zone of an IPv6 address is
// the name of the network interface.
//
// GIDs of InfiniBand and iWARP are no IP addresses; package rdmacm finds such a device by an address.
func OpenAddr(addr netip.Addr) (*Device, GIDEntry, error) {
	if !addr.IsValid() {
		return nil, GIDEntry{}, &OpError{Op: "open device", Err: &ArgError{Arg: "addr", Got: "the zero Addr",
			Want: "an IP address of this host"}}
	}
	want, zone := GIDFromAddr(addr), addr.Zone()
	missing := "no RoCE device has the address " + printable.Name(addr.String())
	return openByGID(missing, func(_ *gidChoice, _ string, e *GIDEntry) bool {
		return e.GID == want && e.Type != GIDTypeIB && (zone == "" || zone == e.Netdev)
	})
}

// OpenNetdev opens the device whose traffic goes by a network interface, such as "eth2" or a VLAN on it, or ib0 of
// InfiniBand, and returns the best GID of that interface, whose port and index are arguments of Endpoint.
func OpenNetdev(name string) (*Device, GIDEntry, error) {
	if name == "" {
		return nil, GIDEntry{}, &OpError{Op: "open device", Err: &ArgError{Arg: "name", Got: "an empty name",
			Want: "the name of a network interface"}}
	}
	missing := "no RDMA device uses the network interface " + printable.Name(name)
	return openByGID(missing, func(c *gidChoice, device string, e *GIDEntry) bool {
		return c.view.Uses(device, int(e.Port), &sysfs.GIDEntry{Netdev: e.Netdev}, name)
	})
}

// openByGID opens the device with the best of the GIDs that match. missing is the message for no match.
func openByGID(missing string, match func(c *gidChoice, device string, e *GIDEntry) bool) (*Device, GIDEntry, error) {
	var names []string
	c := newGIDChoice()
	err := eachDevice(func(_ *verbs, d DeviceInfo, _ uintptr) (bool, error) {
		names = append(names, d.Name)
		dev, err := c.root.Device(d.Name)
		if err != nil {
			return true, nil // it has gone
		}
		for _, p := range dev.Ports {
			entries, err := c.root.GIDs(d.Name, p.Number)
			if err != nil {
				return false, &OpError{Op: "open device", Object: fmt.Sprintf("%s/%d", d.Name, p.Number),
					Err: explainDescriptors(err)}
			}
			for i := range entries {
				s := &entries[i]
				e := GIDEntry{GID: GID(s.GID), Index: s.Index, Port: uint8(p.Number), Type: GIDType(s.Type),
					Netdev: s.Netdev}
				if s.Err == nil && match(c, d.Name, &e) {
					if n := c.view.Netdev(e.Netdev); n != nil {
						e.NetdevIndex = n.Index
					}
					c.add(d.Name, e, s.Type, p.StateName == sysfs.StateActive)
				}
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, GIDEntry{}, err
	}
	best := c.best()
	if best < 0 {
		if len(c.entries) > 0 {
			missing += ": " + c.why(len(c.entries))
		}
		return nil, GIDEntry{}, noDevice("open device", "", missing, names)
	}
	dev, err := DeviceInfo{Name: c.devices[best]}.Open()
	if err != nil {
		return nil, GIDEntry{}, err
	}
	return dev, c.entries[best], nil
}
