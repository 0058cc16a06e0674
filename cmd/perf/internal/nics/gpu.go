package nics

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// nearest returns the NICs that are nearest to a GPU. Of several that are as near, the one that the fewest GPUs before
// it have got.
func nearest(root sysfs.Root, devices []sysfs.Device, list []NIC) ([]NIC, error) {
	addresses, err := gpus(root)
	if err != nil {
		return nil, err
	}
	if len(addresses) == 0 {
		return nil, errNoGPU
	}
	at := map[string]spot{}
	for i := range devices {
		d := &devices[i]
		if d.PCIAddress != "" {
			at[d.Name] = find(root, d.PCIAddress)
		}
	}
	got := make([]int, len(list))
	for _, gpu := range addresses {
		here, best, least := find(root, gpu), -1, math.MaxInt
		for i, n := range list {
			there, known := at[n.Device]
			if !known || n.Down != "" && best >= 0 && list[best].Down == "" {
				continue
			}
			far := here.distance(there)
			works := best >= 0 && list[best].Down != "" && n.Down == ""
			if works || far < least || far == least && got[i] < got[best] {
				best, least = i, far
			}
		}
		if best >= 0 {
			got[best]++
		}
	}
	var near []NIC
	for i, n := range list {
		if got[i] > 0 {
			near = append(near, n)
		}
	}
	if near == nil {
		return nil, errors.New("-d gpu: no RDMA device is on the PCI bus of this host")
	}
	return near, nil
}

const nvidia = 0x10de

// gpus returns the PCI addresses of accelerators: 3D controllers, processing accelerators, and NVIDIA's displays. The
// display of a server's management has none of these classes.
func gpus(root sysfs.Root) (list []string, err error) {
	names, err := root.Names("bus", "pci", "devices")
	if err != nil {
		return nil, err
	}
	number := func(name, attr string) int64 {
		text, err := root.Attr("bus", "pci", "devices", name, attr)
		n, bad := strconv.ParseInt(strings.TrimSpace(text), 0, 64)
		if err != nil || bad != nil {
			return -1
		}
		return n
	}
	for _, name := range names {
		switch number(name, "class") >> 8 {
		case 0x0302, 0x0380, 0x1200:
		case 0x0300:
			if number(name, "vendor") != nvidia {
				continue
			}
		default:
			continue
		}
		list = append(list, name)
	}
	return list, nil
}

// spot is where a PCI device is.
type spot struct {
	path []string // from the root of the bus
	node int64    // -1: not known
}

func find(root sysfs.Root, address string) spot {
	s := spot{node: -1}
	if link, err := root.Link("bus", "pci", "devices", address); err == nil {
		for _, part := range strings.Split(link, "/") {
			if strings.Contains(part, ":") { // pci0000:00, 0000:00:01.0
				s.path = append(s.path, part)
			}
		}
	}
	if text, err := root.Attr("bus", "pci", "devices", address, "numa_node"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32); err == nil && n >= 0 {
			s.node = n
		}
	}
	return s
}

// Distances beyond a common bus.
const (
	sameNode = 1000 * (1 + iota)
	unknownNode
	otherNode
)

// distance is the number of bridges between two devices, or more if none leads from one to the other.
func (s spot) distance(t spot) int {
	common := 0
	for common < min(len(s.path), len(t.path)) && s.path[common] == t.path[common] {
		common++
	}
	switch {
	case common > 0:
		return len(s.path) + len(t.path) - 2*common
	case s.node < 0 || t.node < 0:
		return unknownNode
	case s.node == t.node:
		return sameNode
	}
	return otherNode
}
