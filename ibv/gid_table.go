package ibv

import (
	"errors"
	"net"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// GIDEntry is an entry of a port's GID table.
//
// C: struct ibv_gid_entry.
type GIDEntry struct {
	GID         GID
	Index       int
	Port        uint8
	Type        GIDType
	NetdevIndex int    // index of the network device that the GID comes from, 0 for none, in its network namespace
	Netdev      string // name of that device, which may be in another network namespace
}

// QueryGID reads an entry of the GID table. An empty entry is the zero GID.
//
// C: ibv_query_gid(3).
func (d *Device) QueryGID(port uint8, index int) (GID, error) {
	g := new(GID)
	err := d.onIndex("query gid", gidEntry, port, index, func() error {
		return d.v.QueryGID(d.handle, port, index, (*abi.GID)(g))
	})
	return *g, err
}

// QueryGIDEntry reads an entry with its type and network device. For an empty entry the error
// is ErrNotFound. Libraries before v32 do not report the type; it then comes from sysfs.
//
// C: ibv_query_gid_ex(3).
func (d *Device) QueryGIDEntry(port uint8, index int) (g GIDEntry, err error) {
	err = d.onIndex("query gid", gidEntry, port, index, func() error {
		var err error = ErrNotSupported
		e := new(abi.GIDEntry)
		if d.v.HasQueryGIDEx() {
			err = d.v.QueryGIDEx(d.handle, port, index, e)
		}
		switch {
		case err == nil:
			g = d.gidEntryFromC(e)
		case errors.Is(err, errNoData):
			err = ErrNotFound
		case unsupported(err):
			g, err = d.gidEntryFallback(port, index)
		}
		return err
	})
	return g, err
}

func (d *Device) gidEntryFromC(e *abi.GIDEntry) GIDEntry {
	g := GIDEntry{
		GID:         GID(e.GID),
		Index:       int(e.GIDIndex),
		Port:        uint8(e.PortNum),
		Type:        GIDType(e.GIDType),
		NetdevIndex: int(e.NdevIfindex),
	}
	if g.NetdevIndex == 0 {
		return g
	}
	if _, g.Netdev = sysfsGID(d.Name(), g.Port, g.Index); g.Netdev == "" { // without sysfs, by what has the index here
		if dev, err := net.InterfaceByIndex(g.NetdevIndex); err == nil {
			g.Netdev = dev.Name
		}
	}
	return g
}

// gidEntryFallback combines an entry from ibv_query_gid and sysfs.
// Preconditions: the Device is entered.
func (d *Device) gidEntryFallback(port uint8, index int) (GIDEntry, error) {
	g := new(GID)
	if err := d.v.QueryGID(d.handle, port, index, (*abi.GID)(g)); err != nil {
		return GIDEntry{}, err
	}
	if g.IsZero() {
		return GIDEntry{}, ErrNotFound
	}
	e := GIDEntry{GID: *g, Index: index, Port: port}
	e.Type, e.Netdev = sysfsGID(d.Name(), port, index)
	if e.Netdev != "" {
		if dev, err := net.InterfaceByName(e.Netdev); err == nil {
			e.NetdevIndex = dev.Index
		}
	}
	return e, nil
}

// GIDTable lists the non-empty entries of all ports.
//
// C: ibv_query_gid_table(3).
func (d *Device) GIDTable() ([]GIDEntry, error) {
	table, err := value(&d.node, "query gid table", d.gidTable)
	if unsupported(err) {
		return d.gidTableFallback()
	}
	return table, err
}

func (d *Device) gidTable() ([]GIDEntry, error) {
	total := 0
	a := new(abi.PortAttr)
	for p := 1; p <= int(d.attr.PhysPortCnt); p++ {
		if err := d.v.QueryPort(d.handle, uint8(p), a); err != nil {
			return nil, err
		}
		total += int(a.GIDTblLen)
	}
	entries := make([]abi.GIDEntry, max(total, 1))
	n, err := d.v.QueryGIDTable(d.handle, entries)
	if err != nil {
		return nil, err
	}
	table := make([]GIDEntry, n)
	for i := range table {
		table[i] = d.gidEntryFromC(&entries[i])
	}
	return table, nil
}

func (d *Device) gidTableFallback() ([]GIDEntry, error) {
	var table []GIDEntry
	for p := 1; p <= int(d.attr.PhysPortCnt); p++ {
		a, err := d.QueryPort(uint8(p))
		if err != nil {
			return nil, err
		}
		for i := range a.GIDTableLen {
			e, err := d.QueryGIDEntry(uint8(p), i)
			if err == nil {
				table = append(table, e)
			} else if !errors.Is(err, ErrNotFound) {
				return nil, err
			}
		}
	}
	return table, nil
}

// sysfsGID reads from sysfs what libraries before v32 cannot report about a GID. An unknown
// type is taken as IB, the only one that old kernels have.
func sysfsGID(device string, port uint8, index int) (GIDType, string) {
	e := sysfs.DefaultRoot().GIDEntry(device, port, index)
	return GIDType(max(e.Type, gid.TypeIB)), e.Netdev // C has no type for those of iWARP either
}
