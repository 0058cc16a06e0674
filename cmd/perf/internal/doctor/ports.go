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

// noGUID is the node GUID of a virtual function that was given none.
const noGUID = "0000:0000:0000:0000"

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
		f.Severity, f.Text = Warning, fmt.Sprintf("the port is %s (%s)%s", p.StateName, p.PhysStateName, why)
		f.Evidence += ": " + p.StateName
		if why != "" {
			f.Evidence += ", node_guid: " + d.NodeGUID
		}
		f.Remedy = remedy
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

// gids reports for each GID why it is a good choice or not.
func (x *examination) gids(d *Device, p hostfacts.Port, name string, l *Link) {
	t := x.table(d, p)
	evidence := fmt.Sprintf("%s/%s/ports/%d/gids", x.sysfs().ClassDir(), d.Name, p.Number)
	if t.err != nil {
		x.add(Finding{Severity: Error, Subject: name, Check: "gid", Text: "the GID table cannot be read",
			Evidence: t.err.Error(), Remedy: "ls -l " + evidence})
		return
	}
	list, best := t.list, t.best
	good := best >= 0
	if !good {
		x.add(noGID(d, p, name, evidence, t))
	} else {
		x.bestGID(d, p, name, evidence, t, l)
		if n := foreigners(t.list); n > 0 {
			text := fmt.Sprintf("no interface here has the addresses of %d of %d GIDs: connecting by them fails", n,
				len(list))
			x.add(Finding{Severity: Warning, Subject: name, Check: "gid", Text: text, Evidence: evidence + elsewhere,
				Remedy: "show_gids --up -d " + d.Name + "    # take none that it leaves out"})
		}
	}
	for i, why := range hostfacts.WhyNot(list, best) {
		e := &list[i]
		if good && i == best {
			continue
		}
		x.add(Finding{Severity: Note, Subject: name, Check: "gid", Text: fmt.Sprintf("GID %d, %s %v, is not chosen: %s",
			e.Index, e.GID.Addr(), e.Type, why), Evidence: fmt.Sprintf("%s/%d", evidence, e.Index)})
	}
}

// table is the GID table of a port, without empty entries.
type table struct {
	all  []hostfacts.GIDEntry
	list []hostfacts.GIDEntry // those that can be read
	best int                  // in the list; -1: none carries traffic
	err  error                // why it cannot be read, or none of its entries
}

// table reads the GID table of a port, once.
func (x *examination) table(d *Device, p hostfacts.Port) *table {
	name := fmt.Sprintf("%s/%d", d.Name, p.Number)
	if t := x.tables[name]; t != nil {
		return t
	}
	if x.here == nil {
		x.here = x.Facts.Namespace()
	}
	entries, err := x.here.GIDs(&d.Device, p.Number)
	t := &table{all: entries, err: err}
	for _, e := range entries {
		if e.Err != nil {
			t.err = e.Err
			continue
		}
		t.list = append(t.list, e)
	}
	if len(t.list) > 0 {
		t.err = nil // one bad entry does not matter
	}
	if t.best = hostfacts.BestGID(t.list); t.best >= 0 && t.list[t.best].Down() != "" {
		t.best = -1
	}
	x.tables[name] = t
	return t
}

// byMAC returns an interface that has a default GID of RoCE v2, but not its address; empty if none has.
func (t *table) byMAC() string {
	for i := range t.list {
		if t.list[i].Address == hostfacts.AddressDefault {
			return t.list[i].Netdev
		}
	}
	return ""
}

// noGID reports that no GID of a port can be used.
func noGID(d *Device, p hostfacts.Port, name, evidence string, t *table) Finding {
	c := t.list
	f := Finding{Severity: Error, Subject: name, Check: "gid", Text: "no GID can be used: " + hostfacts.NoGID(c),
		Evidence: evidence, Remedy: "show_gids --why -d " + d.Name}
	switch {
	case !p.Active():
		f.Severity = Note // the port's finding is the cause
	case len(c) == 0:
		f.Text = "the GID table is empty: nothing can be addressed"
		f.Remedy = "ip addr add ADDRESS/PREFIX dev NETDEV    # each address of the port's interface makes an entry"
		if p.LinkLayer != hostfacts.Ethernet {
			f.Remedy = "systemctl start opensm    # the subnet manager's prefix makes the entry"
		}
	case c[0].Type < hostfacts.GIDTypeIB:
		f.Severity, f.Text, f.Remedy = OK, c[0].Unusable(), ""
	case t.byMAC() != "":
		f.Remedy = "ip addr add ADDRESS/PREFIX dev " + t.byMAC()
	case foreigners(t.list) > 0:
		f.Evidence += elsewhere
		f.Remedy = ownInterface
	}
	return f
}

const (
	elsewhere    = ", and ip -o addr: the kernel lists the GIDs of all network namespaces"
	ownInterface = "ip addr    # a container needs the host's network, or an interface of the device: SR-IOV, macvlan"
)

// foreigners returns how many GIDs have an address that no interface of this network namespace has.
func foreigners(c []hostfacts.GIDEntry) (n int) {
	for i := range c {
		if c[i].Address == hostfacts.AddressNone {
			n++
		}
	}
	return n
}

// bestGID reports the problems of the best GID.
func (x *examination) bestGID(d *Device, p hostfacts.Port, name, evidence string, t *table, l *Link) {
	e := t.list[t.best]
	l.GID, l.GIDType, l.Netdev = &e.Index, e.Type.String(), e.Netdev
	text := fmt.Sprintf("GID %d, %s %v on %s, is the best", e.Index, e.GID.Addr(), e.Type, e.Netdev)
	f := Finding{Subject: name, Check: "gid", Text: text, Evidence: fmt.Sprintf("%s/%d", evidence, e.Index)}
	if e.Type != hostfacts.GIDTypeIB {
		l.Address = e.GID.Addr().String()
	} else {
		f.Text = fmt.Sprintf("GID %d, %v, is the best", e.Index, e.GID)
	}
	switch {
	case e.Type == hostfacts.GIDTypeRoCEv1:
		f.Severity = Warning
		f.Text = fmt.Sprintf("the best GID, %d, is RoCE v1, which no router forwards and no RoCE v2 peer accepts",
			e.Index)
		f.Remedy = "ip addr show dev " + e.Netdev +
			"    # RoCE v2 needs roce_enable of the driver: devlink dev param show"
		if netdev := t.byMAC(); netdev != "" {
			f.Remedy = "ip addr add ADDRESS/PREFIX dev " + netdev
		}
	case e.Type == hostfacts.GIDTypeRoCEv2 &&
		(e.Scope == hostfacts.ScopeLinkLocal || e.Scope == hostfacts.ScopeIPv4LinkLocal):
		f.Severity = Warning
		f.Text = fmt.Sprintf("the best GID, %d, is link-local: no router forwards it", e.Index)
		f.Remedy = "ip addr add ADDRESS/PREFIX dev " + e.Netdev
	}
	x.add(f)

	// Which RoCE rdma_cm uses.
	if mode, _ := x.Facts.CMRoCEMode(d.Name, p.Number); mode != "" && mode != "RoCE v2" {
		x.add(Finding{Severity: Warning, Subject: name, Check: "roce", Text: "rdma_cm connects by " + mode,
			Evidence: fmt.Sprintf("%s/kernel/config/rdma_cm/%s/ports/%d/default_roce_mode: %s", x.sysfs(), d.Name,
				p.Number, mode),
			Remedy: fmt.Sprintf("cma_roce_mode -d %s -p %d -m 2", d.Name, p.Number)})
	}
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
	fits := largestMTU(n.MTU)
	f := Finding{Subject: name, Check: "mtu", Text: fmt.Sprintf("active MTU %d", l.MTU),
		Evidence: fmt.Sprintf("%s/class/net/%s/mtu: %d, active MTU of the port: %d", x.sysfs(), n.Name, n.MTU, l.MTU)}
	switch {
	case l.MTU == 0:
		return // it could not be opened
	case l.MTU > fits && l.MTU+minHeaders <= n.MTU:
		f.Severity = Warning
		f.Text = fmt.Sprintf("active MTU %d leaves %d of the %d bytes of %s for headers, which may need %d", l.MTU,
			n.MTU-l.MTU, n.MTU, n.Name, headers)
		f.Remedy = fmt.Sprintf("ip link set dev %s mtu %d", n.Name, l.MTU+headers+8)
	case l.MTU > fits:
		f.Severity = Error
		f.Text = fmt.Sprintf("active MTU %d does not fit into the %d bytes of %s: large messages are lost", l.MTU,
			n.MTU,
			n.Name)
		f.Remedy = fmt.Sprintf("ip link set dev %s mtu %d", n.Name, l.MTU+headers+8)
	case l.MTU < fits:
		f.Severity = Warning
		f.Text = fmt.Sprintf("active MTU %d, although %d fits into the %d bytes of %s", l.MTU, fits, n.MTU, n.Name)
		f.Remedy = "ip link set dev " + n.Name + " down && ip link set dev " + n.Name + " up"
	case fits < 4096:
		f.Severity = Note
		f.Text = fmt.Sprintf("active MTU %d, because the MTU of %s is %d; 4200 or more gives 4096", l.MTU, n.Name,
			n.MTU)
		f.Remedy = "ip link set dev " + n.Name + " mtu 9000    # and of every switch on the way"
	}
	x.add(f)
}
