package doctor

import (
	"fmt"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// headers is the room that the kernel leaves for headers when it chooses the MTU of a port from that of its netdev.
const headers = 96

// minHeaders is the room that a write needs over IPv4: IP, UDP, BTH, RETH and ICRC.
const minHeaders = 60

// largestMTU returns the largest MTU of RDMA that fits into one of a netdev; 0 if none does.
func largestMTU(netdev int) int {
	for mtu := 4096; mtu >= 256; mtu /= 2 {
		if mtu+headers <= netdev {
			return mtu
		}
	}
	return 0
}

// down returns the reason why a port is not ACTIVE, if it is known, and the command that brings it up.
func (x *examination) down(d *Device, p hostfacts.Port) (why, remedy string) {
	const host = "    # on the host; PF is the interface of the physical function"
	ethernet := p.LinkLayer == hostfacts.Ethernet
	switch {
	case !ethernet && d.Function == hostfacts.VF && d.NodeGUID == noGUID:
		return ": the virtual function has no GUID", "ip link set dev PF vf N node_guid GUID; " +
			"ip link set dev PF vf N port_guid GUID; ip link set dev PF vf N state auto" + host
	case p.LinkLayer == hostfacts.InfiniBand && p.StateName == "INIT":
		return "", "start a subnet manager: systemctl start opensm"
	case d.Function == hostfacts.VF && !ethernet:
		return "", "ip link set dev PF vf N state auto" + host
	case d.Function == hostfacts.SF:
		return "", "devlink port function set PORT state active    # on the host; devlink port lists them"
	case !ethernet:
		return "", "check cable and switch"
	}
	remedy = "ip link set dev " + x.netdevOf(d, p.Number) + " up"
	switch {
	case d.Function == hostfacts.VF:
		remedy += "; ip link set dev PF vf N state auto" + host
	case d.PCIAddress != "":
		remedy += "    # then cable and switch"
	}
	return "", remedy
}

func (x *examination) port(d *Device, p hostfacts.Port, l *Link) {
	name := fmt.Sprintf("%s/%d", d.Name, p.Number)
	f := Finding{Subject: name, Check: "port", Text: fmt.Sprintf("%s, %s, %s", p.LinkLayer, p.StateName, p.Rate),
		Evidence: fmt.Sprintf("%s/%s/ports/%d/state", x.sysfs().ClassDir(), d.Name, p.Number)}
	if !p.Active() {
		why, remedy := x.down(d, p)
		f.is(Warning, remedy, "the port is %s (%s)%s", p.StateName, p.PhysStateName, why)
		f.Evidence += ": " + p.StateName
		if why != "" {
			f.Evidence += ", node_guid: " + d.NodeGUID
		}
	}
	x.add(f)
	x.link(d, p, name)
	x.pkeys(d, p, name)
	x.gids(d, p, name, l)
	if p.LinkLayer != hostfacts.Ethernet {
		return
	}
	x.mtu(d, name, l)
	x.congestion(d, p, name, l)
}

// netdevOf returns the netdev of a port.
func (x *examination) netdevOf(d *Device, port int) string {
	if p := d.Port(port); p != nil {
		for _, e := range x.table(d, *p).all {
			if e.Netdev != "" {
				return e.Netdev
			}
		}
	}
	return "NETDEV"
}

// mtu compares the port's MTU with that of its interface or bond. That of a VLAN above them does not matter.
func (x *examination) mtu(d *Device, name string, l *Link) {
	n, ok := x.Facts.Netdev(l.Netdev)
	if ok && n.Kind != "" && n.Kind != "bond" {
		n, ok = x.Facts.Netdev(x.lower(d, l.Netdev))
	}
	if !ok || n.MTU == 0 {
		return
	}
	l.NetdevMTU = n.MTU
	fits, larger := largestMTU(n.MTU), fmt.Sprintf("ip link set dev %s mtu %d", n.Name, l.MTU+headers+8)
	f := Finding{Subject: name, Check: "mtu", Text: fmt.Sprintf("active MTU %d", l.MTU),
		Evidence: fmt.Sprintf("%s/class/net/%s/mtu: %d, active MTU of the port: %d", x.sysfs(), n.Name, n.MTU, l.MTU)}
	switch {
	case l.MTU == 0:
		return // it could not be opened
	case l.MTU > fits && l.MTU+minHeaders <= n.MTU:
		f.is(Warning, larger, "active MTU %d leaves %d of the %d bytes of %s for headers, which may need %d", l.MTU,
			n.MTU-l.MTU, n.MTU, n.Name, headers)
	case l.MTU > fits:
		f.is(Error, larger, "active MTU %d does not fit into the %d bytes of %s: large messages are lost", l.MTU, n.MTU,
			n.Name)
	case l.MTU < fits:
		f.is(Warning, "ip link set dev "+n.Name+" down && ip link set dev "+n.Name+" up",
			"active MTU %d, although %d fits into the %d bytes of %s", l.MTU, fits, n.MTU, n.Name)
	case fits < 4096:
		f.is(Note, "ip link set dev "+n.Name+" mtu 9000    # and of every switch on the way",
			"active MTU %d, because the MTU of %s is %d; 4200 or more gives 4096", l.MTU, n.Name, n.MTU)
	}
	x.add(f)
}
