package doctor

import (
	"fmt"
	"slices"

	"github.com/pureverbs/pureverbs/hostfacts"
)

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
		f.is(Error, "ip addr add ADDRESS/PREFIX dev NETDEV    # each address of the port's interface makes an entry",
			"the GID table is empty: nothing can be addressed")
		if p.LinkLayer != hostfacts.Ethernet {
			f.Remedy = "systemctl start opensm    # the subnet manager's prefix makes the entry"
		}
	case c[0].Type < hostfacts.GIDTypeIB:
		f.is(OK, "", "%s", c[0].Unusable())
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
		f.is(Warning, "ip addr show dev "+e.Netdev+
			"    # RoCE v2 needs roce_enable of the driver: devlink dev param show",
			"the best GID, %d, is RoCE v1, which no router forwards and no RoCE v2 peer accepts", e.Index)
		if netdev := t.byMAC(); netdev != "" {
			f.Remedy = "ip addr add ADDRESS/PREFIX dev " + netdev
		}
	case e.Type == hostfacts.GIDTypeRoCEv2 &&
		(e.Scope == hostfacts.ScopeLinkLocal || e.Scope == hostfacts.ScopeIPv4LinkLocal):
		f.is(Warning, "ip addr add ADDRESS/PREFIX dev "+e.Netdev,
			"the best GID, %d, is link-local: no router forwards it", e.Index)
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

// lower returns the device's own interface: that of a GID may be a bond or a VLAN, which have no priorities.
func (x *examination) lower(d *Device, netdev string) string {
	own := x.Facts.Netdevs(d.Name)
	if len(own) == 0 || slices.Contains(own, netdev) {
		return netdev
	}
	return own[0]
}
