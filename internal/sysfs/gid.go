package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/internal/gid"
)

// GID is the 16 bytes of a GID in network order.
type GID [16]byte

// String returns the kernel's form: eight groups of four hex digits.
func (g GID) String() string { return netip.AddrFrom16(g).StringExpanded() }

// IsZero reports whether the GID is all zero: an empty entry of the table.
func (g GID) IsZero() bool { return g == GID{} }

// Addr returns the GID as an IP address. An IPv4-mapped address is returned as IPv4.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// ParseGID parses the kernel's form: eight groups of four hex digits.
func ParseGID(s string) (GID, error) {
	a, err := netip.ParseAddr(s)
	if g := GID(a.As16()); err == nil && strings.EqualFold(g.String(), s) {
		return g, nil
	}
	return GID{}, fmt.Errorf("gid %s: want eight groups of four hex digits", quote(s))
}

// guid returns s if it is a GUID in the kernel's form, otherwise "".
func guid(s string) string {
	if _, err := ParseGID("0000:0000:0000:0000:" + s); err != nil {
		return ""
	}
	return s
}

// quote returns s quoted and shortened for a message.
func quote(s string) string {
	if len(s) > 64 {
		return strconv.Quote(s[:64]) + "..."
	}
	return strconv.Quote(s)
}

// gidType returns the type for the text of the attribute and the link layer. The kernel has one
// text for both IB and RoCE v1.
func gidType(text, linkLayer string) gid.Type {
	switch text {
	case "RoCE v2":
		return gid.TypeRoCEv2
	case "RoCE v1":
		return gid.TypeRoCEv1
	case "IB/RoCE v1":
		if linkLayer == LinkEthernet {
			return gid.TypeRoCEv1
		}
		return gid.TypeIB
	}
	return gid.TypeUnknown
}

// GIDEntry is one entry of a port's GID table. Entries are values.
type GIDEntry struct {
	Index  int
	GID    GID
	Type   gid.Type
	Netdev string // "" if there is none, as on InfiniBand

	Text     string // the GID as the kernel wrote it
	TypeText string // the type as the kernel wrote it
	Err      error  // why the GID could not be read; GID is zero then

	Unread []*fs.PathError // why the type or the netdev could not be read
}

// gidTable is an open GID table of a port.
type gidTable struct {
	gids, types, ndevs *dir // types, ndevs: nil if the kernel has none
	linkLayer          string
	other              gid.Type        // of a device that has no other, 0 for InfiniBand and RoCE
	old                bool            // no gid_attrs at all: a kernel before RoCE v2
	unread             []*fs.PathError // directories of types and ndevs
}

func (r Root) openGIDTable(dev string, port int) (*gidTable, error) {
	if !validName(dev) {
		return nil, badName("device", dev)
	}
	d, err := openDir(r.path("class", "infiniband", dev))
	if err != nil {
		return nil, err
	}
	defer d.close()
	p, err := d.sub("ports/" + strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	defer p.close()
	gids, err := p.sub("gids")
	if err != nil {
		return nil, err
	}
	t := &gidTable{gids: gids, linkLayer: p.text("link_layer"), other: nodeGIDType(d.text("node_type"))}
	t.types, err = p.sub("gid_attrs/types")
	t.old = errors.Is(err, fs.ErrNotExist)
	t.unread = unreadDir(err)
	if !Exhausted(err) {
		t.ndevs, err = p.sub("gid_attrs/ndevs")
		t.unread = append(t.unread, unreadDir(err)...)
	}
	if !Exhausted(err) {
		err = errors.Join(p.failed, d.failed)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// nodeGIDType returns the type of the GIDs of a kind of device that has only one, otherwise 0.
func nodeGIDType(node string) gid.Type {
	switch code, _ := cut(node); code { // C: enum ibv_node_type
	case 4:
		return gid.TypeIWARP
	case 5, 6:
		return gid.TypeUSNIC
	}
	return 0
}

func (t *gidTable) close() {
	for _, d := range []*dir{t.gids, t.types, t.ndevs} {
		if d != nil {
			d.close()
		}
	}
}

// entry reads a GID.
func (t *gidTable) entry(index int) GIDEntry {
	e := GIDEntry{Index: index, Unread: slices.Clone(t.unread)}
	if e.Text, e.Err = t.gids.attr(strconv.Itoa(index)); e.Err == nil {
		e.GID, e.Err = ParseGID(e.Text)
	}
	return e
}

// describe reads the type and the netdev of an entry.
func (t *gidTable) describe(e *GIDEntry) {
	for _, d := range []*dir{t.types, t.ndevs} {
		if d != nil {
			d.unread = &e.Unread
		}
	}
	name := strconv.Itoa(e.Index)
	e.Netdev = t.netdev(name)
	e.Type, e.TypeText = t.gidType(name)
}

func (t *gidTable) gidType(name string) (gid.Type, string) {
	typ, text := t.listedType(name)
	if t.other != 0 {
		typ = t.other
	}
	return typ, text
}

func (t *gidTable) listedType(name string) (gid.Type, string) {
	if t.types == nil {
		if t.old {
			return gidType("IB/RoCE v1", t.linkLayer), ""
		}
		return gid.TypeUnknown, ""
	}
	text, err := t.types.attr(name)
	if !Absent(err) {
		t.types.note(err)
	}
	if err != nil && t.linkLayer == LinkInfiniBand {
		return gid.TypeIB, "" // some kernels return EINVAL for it
	}
	typ := gidType(text, t.linkLayer)
	if err == nil && typ == gid.TypeUnknown {
		t.types.malformed(name, text, "IB/RoCE v1 or RoCE v2")
	}
	return typ, text
}

func (t *gidTable) netdev(name string) string {
	if t.ndevs == nil {
		return ""
	}
	s, known := t.ndevs.known(name)
	blank := func(r rune) bool { return r <= ' ' }
	if known && (!validName(s) || len(s) > maxNetdev || strings.ContainsFunc(s, blank)) {
		t.ndevs.malformed(name, s, "the name of an interface")
	}
	return s
}

// GIDs reads the GID table of a port in order of index. Empty entries are omitted. An entry that
// cannot be read has Err set; the others are not affected.
func (r Root) GIDs(dev string, port int) ([]GIDEntry, error) {
	t, err := r.openGIDTable(dev, port)
	if err != nil {
		return nil, err
	}
	defer t.close()
	idx, err := t.gids.indices()
	if err != nil {
		return nil, err
	}
	var out []GIDEntry
	for _, i := range idx {
		if e := t.entry(i); e.Err != nil || !e.GID.IsZero() {
			t.describe(&e)
			out = append(out, e)
		}
	}
	for _, d := range []*dir{t.types, t.ndevs} {
		if d != nil && d.failed != nil {
			return nil, d.failed
		}
	}
	return out, nil
}

// GIDEntry reads one entry, which may be empty. Err is set if there is none. The type is unknown if the kernel does not
// report it, as for empty entries.
func (r Root) GIDEntry(dev string, port uint8, index int) GIDEntry {
	t, err := r.openGIDTable(dev, int(port))
	if err != nil {
		return GIDEntry{Index: index, Type: gid.TypeUnknown, Err: err}
	}
	defer t.close()
	e := t.entry(index)
	t.describe(&e)
	return e
}

// cut splits "4: ACTIVE" into its number and its name. The number is -1 if there is none.
func cut(s string) (int, string) {
	num, name, ok := strings.Cut(s, ":")
	n, err := strconv.Atoi(strings.TrimSpace(num))
	if !ok || err != nil || n < 0 {
		return -1, strings.TrimSpace(s)
	}
	return n, strings.TrimSpace(name)
}
