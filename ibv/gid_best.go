package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// bestGID returns the index of the GID that a connection should use on a port.
// Preconditions: nothing is entered.
func (d *Device) bestGID(port uint8, pa *PortAttr) (int, error) {
	table, err := d.GIDTable()
	if err != nil {
		return 0, err
	}
	root := sysfs.DefaultRoot()
	links := make(map[string]sysfs.Netdev)
	var candidates []gid.Candidate
	for _, e := range table {
		if e.Port != port {
			continue
		}
		dev, known := links[e.Netdev]
		if !known && e.Netdev != "" {
			dev, _ = root.Netdev(e.Netdev)
			links[e.Netdev] = dev
		}
		candidates = append(candidates, gid.Candidate{
			GID:        e.GID,
			Index:      e.Index,
			Type:       gid.Type(e.Type),
			PortActive: pa.State.active(),
			Netdev:     linkOf(dev),
			VLAN:       dev.VLAN,
		})
	}
	best := gid.Best(candidates)
	if best < 0 {
		return 0, &OpError{Op: "choose gid", Object: fmt.Sprintf("%s/%d", d.Name(), port), Err: ErrNotFound,
			Detail: fmt.Sprintf("none of %d entries is usable; does the network device have an address?",
				len(candidates))}
	}
	return candidates[best].Index, nil
}

func linkOf(d sysfs.Netdev) gid.Link {
	switch {
	case d.Name == "":
		return gid.LinkUnknown
	case d.Up():
		return gid.LinkUp
	}
	return gid.LinkDown
}

// sysfsGID reads from sysfs what libraries before v32 cannot report about a GID. An unknown
// type is taken as IB, the only one that old kernels have.
func sysfsGID(device string, port uint8, index int) (GIDType, string) {
	root := sysfs.DefaultRoot()
	typ, ok := root.GIDType(device, port, index)
	if !ok {
		typ = sysfs.GIDTypeIB
	}
	netdev, _ := root.GIDNetdev(device, port, index)
	return GIDType(typ), netdev
}
