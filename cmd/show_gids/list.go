package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// portStates are the names of hostfacts.
var portStates = []string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}

// filter selects the GIDs to list; the zero filter selects all.
type filter struct {
	ports   []int
	types   []hostfacts.GIDType
	v4, v6  bool
	netdevs []string
	states  []string
	up      bool
	source  netip.Addr // the address of the GIDs; the zero Addr for any
	route   string     // the interface by which --to is reached
}

// gidType is a type of GIDs, with its name as a flag, and another one.
type gidType struct {
	name, other string
	typ         hostfacts.GIDType
}

var types = []gidType{{"ib", "ib", hostfacts.GIDTypeIB}, {"v1", "rocev1", hostfacts.GIDTypeRoCEv1},
	{"v2", "rocev2", hostfacts.GIDTypeRoCEv2}}

// port reports whether a port may have matching GIDs, before they are read.
func (f *filter) port(p hostfacts.Port) bool {
	has := func(s string) bool { return strings.EqualFold(s, p.StateName) }
	return (len(f.ports) == 0 || slices.Contains(f.ports, p.Number)) &&
		(len(f.states) == 0 || slices.ContainsFunc(f.states, has)) &&
		(!f.up || p.Active())
}

func (f *filter) row(r *row, n *hostfacts.Namespace) bool {
	uses := func(netdev string) bool { return n.Uses(&r.entry, netdev) }
	return (len(f.types) == 0 || slices.Contains(f.types, r.entry.Type)) &&
		(!f.v4 && !f.v6 || f.v4 && r.isIPv4() || f.v6 && r.isIPv6()) &&
		(len(f.netdevs) == 0 || slices.ContainsFunc(f.netdevs, uses)) &&
		(!f.up || r.entry.Link != hostfacts.LinkDown && !r.entry.Address.Missing()) &&
		(!f.source.IsValid() || n.From(&r.entry, f.source))
}

// row is one GID and its properties.
type row struct {
	port   hostfacts.Port
	entry  hostfacts.GIDEntry
	netdev *hostfacts.Netdev // nil: none, or not in this network namespace
}

func (r *row) isIPv4() bool { return r.entry.IsIP() && r.entry.GID.Addr().Is4() }
func (r *row) isIPv6() bool { return r.entry.IsIP() && r.entry.GID.Addr().Is6() }

func (r *row) name() string {
	return fmt.Sprintf("%s/%d/%d", r.entry.Device, r.port.Number, r.entry.Index)
}

// namespace returns what this network namespace has.
func (c *config) namespace() *hostfacts.Namespace {
	n := c.host.Namespace()
	n.By(c.filter.route)
	return n
}

func newRow(n *hostfacts.Namespace, p hostfacts.Port, e hostfacts.GIDEntry) *row {
	r := &row{port: p, entry: e}
	if e.Address != hostfacts.AddressNone { // otherwise one of that name is another
		r.netdev = n.Netdev(e.Netdev)
	}
	return r
}

// entries returns the GIDs of rows.
func entries(rows []*row) []hostfacts.GIDEntry {
	list := make([]hostfacts.GIDEntry, len(rows))
	for i, r := range rows {
		list[i] = r.entry
	}
	return list
}

type listing struct {
	devices  []hostfacts.Device
	rows     []*row
	gids     int // before the filters
	warnings []error
	unread   int // tables and entries that could not be read, and have not gone
}

// list reads the GID tables of devs, in numeric order.
func list(c *config, devs []hostfacts.Device) *listing {
	devs = slices.Clone(devs)
	slices.SortFunc(devs, func(a, b hostfacts.Device) int { return hostfacts.CompareNames(a.Name, b.Name) })
	l := &listing{devices: slices.CompactFunc(devs, func(a, b hostfacts.Device) bool { return a.Name == b.Name })}
	n := c.namespace()
	for _, d := range l.devices {
		for _, p := range d.Ports {
			entries, err := n.GIDs(&d, p.Number)
			if err != nil {
				l.warn(fmt.Errorf("%s/%d: %w", d.Name, p.Number, err))
				continue
			}
			for _, e := range entries {
				r := newRow(n, p, e)
				if e.Err != nil {
					l.warn(fmt.Errorf("%s: %w", r.name(), e.Err))
					continue
				}
				l.gids++
				if c.filter.port(p) && c.filter.row(r, n) {
					l.rows = append(l.rows, r)
				}
			}
		}
	}
	return l
}

// warn records what could not be read, except things that have vanished meanwhile.
func (l *listing) warn(err error) {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
		l.warnings = append(l.warnings, err)
		l.unread++
	}
}

// nothing returns why the list is empty.
func (l *listing) nothing(c *config) error {
	switch {
	case len(l.devices) == 0:
		return errors.New("no RDMA devices: " + c.host.NoDevice())
	case l.gids == 0 && l.unread > 0:
		return errors.New("no GIDs that can be read")
	case l.gids == 0:
		return fmt.Errorf("no GIDs: the tables of %d device(s) are empty; %s", len(l.devices), hostfacts.Fills)
	}
	if s := c.filter.source; s.IsValid() {
		return fmt.Errorf("no GID matches: %d without the filters; "+
			"--to needs one of %v, the source address of this host, or InfiniBand whose IPoIB has it", l.gids, s)
	}
	return fmt.Errorf("no GID matches: %d without the filters", l.gids)
}
