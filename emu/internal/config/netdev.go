package config

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// Netdev is a network interface that goes with a port.
type Netdev struct {
	Name    string
	Parent  string // of a VLAN: the port's own netdev
	VLAN    int
	IfIndex int
	Real    bool // it is not emulated: one of the machine's, or lo, which every network has
	MAC     MAC
	MTU     int
	Device  int // index in Config.Devices
	Port    int // counts from 1
}

// firstIfIndex keeps clear of the machine's own interfaces.
const firstIfIndex = 10001

// UseHost makes the netdevs those that the machine has; what it has not is named nowhere. It is for before the
// configuration is used.
func (c *Config) UseHost() {
	c.Host = true
	for i := range c.Devices {
		for j := range c.Devices[i].Ports {
			p := &c.Devices[i].Ports[j]
			for k := range p.GIDs {
				keepReal(&p.GIDs[k].Netdev)
			}
			keepReal(&p.Netdev)
		}
	}
}

// Fix has Netdevs return from now on what it returns now, whatever becomes of the GID tables.
func (c *Config) Fix() { c.fixed = c.Netdevs() }

func keepReal(name *string) {
	if _, err := net.InterfaceByName(*name); err != nil {
		*name = ""
	}
}

// IfIndex returns the index of a netdev, 0 if there is none of that name.
func (c *Config) IfIndex(name string) int {
	for _, n := range c.Netdevs() {
		if n.Name == name && name != "" {
			return n.IfIndex
		}
	}
	return 0
}

// Netdevs lists the network interfaces of all ports, VLANs after their parent. An interface that is not emulated has
// its own index.
func (c *Config) Netdevs() []Netdev {
	if c.fixed != nil {
		return c.fixed
	}
	var out []Netdev
	for i := range c.Devices {
		for j := range c.Devices[i].Ports {
			p := &c.Devices[i].Ports[j]
			if p.LinkLayer != Ethernet {
				continue
			}
			n := Netdev{Name: p.Netdev, MAC: p.MAC, MTU: p.NetdevMTU(), Device: i, Port: j + 1}
			if n.Name != "" {
				out = append(out, n)
			}
			for _, g := range p.GIDs {
				known := func(n Netdev) bool { return n.Name == g.Netdev }
				if g.VLAN != 0 && g.Netdev != "" && !slices.ContainsFunc(out, known) {
					n.Name, n.Parent, n.VLAN = g.Netdev, p.Netdev, g.VLAN
					out = append(out, n)
				}
			}
		}
	}
	for i := range out {
		out[i].IfIndex = firstIfIndex + i
		if !c.Host && out[i].Name != "lo" {
			continue
		}
		if ifi, err := net.InterfaceByName(out[i].Name); err == nil {
			out[i].IfIndex, out[i].Real = ifi.Index, true
		}
	}
	return out
}

// roceHeaders is the room that the kernel leaves for RoCE's headers in a frame. C: iboe_get_mtu.
const roceHeaders = 96

// NetdevMTU returns the MTU of the interface that gives the port its active MTU.
func (p *Port) NetdevMTU() int {
	switch p.ActiveMTU {
	case MTU4096:
		return 9000
	case MTU1024:
		return 1500
	}
	return p.ActiveMTU.Bytes() + roceHeaders
}

// MTUOf returns the greatest path MTU for which an interface's MTU has room, at most the port's, or 0.
func (p *Port) MTUOf(netdev int) MTU {
	m := p.MaxMTU
	for m > 0 && m.Bytes()+roceHeaders > netdev {
		m--
	}
	return m
}

// Rate returns the port's rate in 100 Mb/s.
func (p *Port) Rate() int { return p.Width.Lanes() * p.Speed.LaneRate() }

// RateText returns the rate as the kernel prints it: 400 Gb/sec (4X NDR).
func (p *Port) RateText() string {
	half := ""
	if p.Rate()%10 != 0 {
		half = ".5"
	}
	return fmt.Sprintf("%d%s Gb/sec (%v %v)", p.Rate()/10, half, p.Width, p.Speed)
}

// String describes the devices to people.
func (c *Config) String() string {
	var b strings.Builder
	for i := range c.Devices {
		d := &c.Devices[i]
		fmt.Fprintf(&b, "%s: %s (15b3:%04x) at %s, uverbs%d\n  guid %v  firmware %s  board %s  max_qp %d  max_qp_wr "+
			"%d  max_sge %d\n", d.Name, d.Model.Name, d.Model.PCI, d.PCI, i, d.NodeGUID, d.FirmwareVersion, d.BoardID,
			d.Limits.MaxQP,
			d.Limits.MaxQPWR, d.Limits.MaxSGE)
		for j := range d.Ports {
			p := &d.Ports[j]
			fmt.Fprintf(&b, "  port %d: %v %v %v, %s, mtu %v of %v", j+1, p.LinkLayer, p.State, p.PhysState,
				p.RateText(), p.ActiveMTU, p.MaxMTU)
			if p.LinkLayer == InfiniBand {
				fmt.Fprintf(&b, ", lid %d, sm lid %d", p.LID, p.SMLID)
			} else {
				fmt.Fprintf(&b, ", netdev %s %v", p.Netdev, p.MAC)
			}
			fmt.Fprintf(&b, ", %d gids, %d pkeys\n", p.GIDTableLen, len(p.PKeys))
			for k, g := range p.GIDs {
				if g.GID.IsZero() {
					continue
				}
				fmt.Fprintf(&b, "    gid %3d  %v  %v", k, g.GID, g.Type)
				if g.Netdev != "" {
					b.WriteString("  " + g.Netdev)
				}
				if ip := g.GID.IP(); ip.Is4() {
					fmt.Fprintf(&b, "  %v", ip)
				}
				b.WriteByte('\n')
			}
		}
	}
	if c.MemlockLimit != 0 {
		fmt.Fprintf(&b, "memory that a process may register: %d bytes\n", c.MemlockLimit)
	}
	return b.String()
}
