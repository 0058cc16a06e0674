package hostfacts

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// GPU is an accelerator on the PCI bus: a 3D controller, a processing accelerator, or a display of NVIDIA's. The
// display of a server's management is none.
type GPU struct {
	PCIAddress string `json:"pci_address"`
	PCIID      string `json:"pci_id"`    // 10de:2330; empty if it is not known
	NUMANode   int    `json:"numa_node"` // Unknown if the host does not report it
}

const nvidia = 0x10de

// GPUs lists the accelerators of the host, in the order of their addresses.
func (h Host) GPUs() ([]GPU, []Missing) {
	r, list := h.reader(), []GPU{}
	for _, name := range r.names("bus", "pci", "devices") {
		at := func(attr string, most int64) int64 { return r.number(most, "bus", "pci", "devices", name, attr) }
		class := at("class", 0xffffff)
		if class < 0 {
			continue
		}
		switch class >> 8 {
		case 0x0302, 0x0380, 0x1200:
		case 0x0300:
			if at("vendor", math.MaxUint16) != nvidia {
				continue
			}
		default:
			continue
		}
		list = append(list, GPU{PCIAddress: name, PCIID: r.pciID("bus", "pci", "devices", name),
			NUMANode: int(at("numa_node", math.MaxInt32))})
	}
	return list, r.missing
}

// Path is what leads from one PCI device to another.
type Path string

// The paths, from the nearest on.
const (
	PathPCI     Path = "pci"     // bridges of a common root
	PathNode    Path = "node"    // the same NUMA node
	PathUnknown Path = "unknown" // the host does not report a node
	PathSystem  Path = "system"  // the link between NUMA nodes
)

var pathOrder = map[Path]int{PathPCI: 0, PathNode: 1, PathUnknown: 2, PathSystem: 3}

// Distance is how far two PCI devices are from each other.
type Distance struct {
	Path    Path `json:"path"`
	Bridges int  `json:"bridges"` // steps up and down the tree of bridges, only with PathPCI
}

// Compare is negative if d is shorter, and positive if e is.
func (d Distance) Compare(e Distance) int {
	return cmp.Or(cmp.Compare(pathOrder[d.Path], pathOrder[e.Path]), cmp.Compare(d.Bridges, e.Bridges))
}

// String returns the path, with the number of bridges if there are some.
func (d Distance) String() string {
	if d.Path == PathPCI {
		return fmt.Sprintf("%s %d", d.Path, d.Bridges)
	}
	return string(d.Path)
}

// Distance returns how far two devices of the PCI bus are from each other, by their addresses.
func (h Host) Distance(a, b string) Distance {
	return h.spot(a).distance(h.spot(b))
}

// spot is where a PCI device is.
type spot struct {
	path []string // from the root of the bus
	node int64    // Unknown
}

func (h Host) spot(address string) spot {
	var s spot
	if link, err := h.sys().Link("bus", "pci", "devices", address); err == nil {
		for _, part := range strings.Split(link, "/") {
			if strings.Contains(part, ":") { // pci0000:00, 0000:00:01.0
				s.path = append(s.path, part)
			}
		}
	}
	s.node = h.reader().number(math.MaxInt32, "bus", "pci", "devices", address, "numa_node")
	return s
}

func (s spot) distance(t spot) Distance {
	common := 0
	for common < min(len(s.path), len(t.path)) && s.path[common] == t.path[common] {
		common++
	}
	switch {
	case common > 0:
		return Distance{Path: PathPCI, Bridges: len(s.path) + len(t.path) - 2*common}
	case s.node < 0 || t.node < 0:
		return Distance{Path: PathUnknown}
	case s.node == t.node:
		return Distance{Path: PathNode}
	}
	return Distance{Path: PathSystem}
}
