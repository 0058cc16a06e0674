package hostfacts

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/netview"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// GIDEntry is an entry of a port's GID table, with what decides whether a connection can and should use it. Entries are
// values.
type GIDEntry struct {
	Device string  `json:"device"`
	Port   int     `json:"port"`
	Index  int     `json:"index"`
	GID    GID     `json:"gid"`
	Type   GIDType `json:"type"`
	Netdev string  `json:"netdev"` // empty if there is none, as on InfiniBand
	Scope  Scope   `json:"scope"`

	PortActive bool         `json:"port_active"`
	Link       LinkState    `json:"netdev_state"`
	Address    AddressState `json:"address_state"` // in the network namespace of this process
	OffRoute   bool         `json:"off_route"`     // the peer is reached by another netdev, that of [Namespace.By]
	Above      string       `json:"above"`         // VLAN and others, if the netdev lies above the device's own

	Text     string `json:"-"` // the GID as the kernel wrote it
	TypeText string `json:"-"` // the type as the kernel wrote it
	Err      error  `json:"-"` // why the GID could not be read; GID is zero then

	Missing []Missing `json:"missing,omitempty"` // why the GID, the type or the netdev is not known
}

// IsIP reports whether the GID is an IP address. On InfiniBand and iWARP it is none, whatever it looks like.
func (e *GIDEntry) IsIP() bool { return e.Type != GIDTypeIB && e.Type >= GIDTypeUnknown }

// Unusable returns why no connection can use the GID, empty if one can.
func (e *GIDEntry) Unusable() string { return gid.Unusable(e.candidate()) }

// Down returns why the GID carries no traffic now, empty if it does.
func (e *GIDEntry) Down() string { return gid.Down(e.candidate()) }

func (e *GIDEntry) candidate() gid.Candidate {
	return gid.Candidate{GID: e.GID, Index: e.Index, Type: gid.Type(e.Type), PortActive: e.PortActive,
		Netdev: gid.Link(e.Link), Address: gid.Address(e.Address), Above: e.Above, OffRoute: e.OffRoute}
}

func candidates(list []GIDEntry) []gid.Candidate {
	c := make([]gid.Candidate, len(list))
	for i := range list {
		c[i] = list[i].candidate()
	}
	return c
}

// MaxGIDIndex is the highest index that the verbs can name: C has a byte for it. Tables may be longer.
const MaxGIDIndex = gid.MaxIndex

// BestGID returns the position in a list of the GID to use, the first of equals, and -1 if none is usable. The GID may
// be down: see [GIDEntry.Down].
//
// The choice is, in this order: usable at all; port ACTIVE; netdev up; InfiniBand, RoCE v2, RoCE v1; IPv4, other
// routable, link-local; address neither deprecated nor temporary; the route's netdev; the device's own netdev or its
// bond; lower index.
func BestGID(list []GIDEntry) int { return gid.Best(candidates(list)) }

// WhyNot returns for each GID of a list why it was not chosen. best is the position of the chosen one, -1 for none. The
// reason is empty if there is none against the GID.
func WhyNot(list []GIDEntry, best int) []string {
	c := candidates(list)
	out := make([]string, len(list))
	for i := range c {
		if out[i] = gid.Why(c, best, i); list[i].Err != nil {
			out[i] = "cannot be read"
		}
	}
	return out
}

// NoGID returns why none of a list can be used: the most frequent reason.
func NoGID(list []GIDEntry) string {
	readable := slices.DeleteFunc(slices.Clone(list), func(e GIDEntry) bool { return e.Err != nil })
	return gid.None(candidates(readable))
}

// Fills says what makes the entries of an empty table.
const Fills = gid.Fills

// Namespace is the network namespace of this process at one moment: its interfaces and their addresses. Linux lists
// each GID of a device to everybody. Those of other namespaces' interfaces are among them, by names that other
// interfaces may have here. So a GID counts only if the interface here has its address. A Namespace is not safe for
// concurrent use.
type Namespace struct {
	host Host
	view *netview.View
}

// Namespace reads the addresses of this network namespace, by netlink. For a copy of sysfs they are those in its file
// "addresses", which has the output of ip -o addr.
func (h Host) Namespace() *Namespace {
	if h.OtherNamespace {
		return &Namespace{h, netview.Foreign(h.sys())}
	}
	return &Namespace{h, netview.New(h.sys())}
}

// By says that the peer is reached by this interface. It counts for the tables that are read after it.
func (n *Namespace) By(netdev string) { n.view.By(netdev) }

// GIDs reads the GID table of a port in order of index, without empty entries. An entry that cannot be read has Err
// set, and the others are not affected. The error is a [*NotFoundError] if the device has no such port.
func (n *Namespace) GIDs(d *Device, port int) ([]GIDEntry, error) {
	p := d.Port(port)
	if p == nil {
		return nil, d.noPort(port)
	}
	list, err := n.host.sys().GIDs(d.Name, port)
	if err != nil {
		return nil, err
	}
	out := make([]GIDEntry, 0, len(list))
	for i := range list {
		out = append(out, n.entry(d.Name, p, &list[i]))
	}
	return out, nil
}

func (n *Namespace) entry(device string, p *Port, e *sysfs.GIDEntry) GIDEntry {
	c := n.view.Candidate(e, p.Active())
	out := GIDEntry{Device: device, Port: p.Number, Index: e.Index, GID: GID(e.GID), Type: GIDType(e.Type),
		Netdev: e.Netdev, Scope: Scope(gid.ScopeOf(e.GID)), PortActive: c.PortActive, Link: LinkState(c.Netdev),
		Address: AddressState(c.Address), Above: c.Above, OffRoute: c.OffRoute, Text: e.Text, TypeText: e.TypeText,
		Err: e.Err, Missing: missing(e.Unread)}
	if e.Netdev != "" && n.view.Netdev(e.Netdev) == nil {
		r := n.host.reader()
		r.names("class", "net", e.Netdev)
		out.Missing = append(out.Missing, r.missing...)
	}
	if e.Err != nil {
		path := n.host.SysPath("class", "infiniband", device, "ports", strconv.Itoa(p.Number), "gids",
			strconv.Itoa(e.Index))
		out.Missing = append(out.Missing, miss(path, e.Err))
	}
	return out
}

// Netdev returns a network interface, nil if this namespace has none of that name.
func (n *Namespace) Netdev(name string) *Netdev {
	d := n.view.Netdev(name)
	if d == nil {
		return nil
	}
	own := netdevOf(d)
	return &own
}

// Network returns the network of a GID's address, and the zero Prefix if it is not known.
func (n *Namespace) Network(e *GIDEntry) netip.Prefix { return n.view.Network(e.raw()) }

// Uses reports whether the traffic of a GID passes a network interface. A GID of InfiniBand names none: IPoIB's is that
// of the device's function and port.
func (n *Namespace) Uses(e *GIDEntry, netdev string) bool {
	return n.view.Uses(e.Device, e.Port, e.raw(), netdev)
}

// From reports whether traffic from an address of this host uses a GID: that address is the GID, or that of IPoIB on
// its port.
func (n *Namespace) From(e *GIDEntry, source netip.Addr) bool {
	return n.view.From(e.Device, e.Port, e.raw(), source)
}

func (e *GIDEntry) raw() *sysfs.GIDEntry {
	return &sysfs.GIDEntry{Index: e.Index, GID: sysfs.GID(e.GID), Type: gid.Type(e.Type), Netdev: e.Netdev}
}

// GIDTable is the GID table of a port, and the choice in it.
type GIDTable struct {
	Entries []GIDEntry `json:"entries"` // without empty ones
	Best    int        `json:"best"`    // position in Entries of the GID to use; -1 if none carries traffic
	Why     []string   `json:"why"`     // for each entry why it is not chosen; empty for the best
}

// Table reads the GID table of a port, as [Namespace.GIDs], and chooses.
func (n *Namespace) Table(d *Device, port int) (*GIDTable, error) {
	list, err := n.GIDs(d, port)
	if err != nil {
		return nil, err
	}
	t := &GIDTable{Entries: list, Best: BestGID(list)}
	if t.Best >= 0 && list[t.Best].Down() != "" {
		t.Best = -1
	}
	t.Why = WhyNot(list, t.Best)
	return t, nil
}

// GIDs reads the GID table of a port of a device, and chooses. The error is a [*NotFoundError] if there is no such
// device or port.
func (h Host) GIDs(device string, port int) (*GIDTable, error) {
	d, err := h.Device(device)
	if err != nil {
		return nil, err
	}
	return h.Namespace().Table(&d, port)
}
