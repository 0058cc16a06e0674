package hostfacts

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Facts is all that this package knows of a host at one moment.
type Facts struct {
	Hostname  string         `json:"hostname"`
	Kernel    string         `json:"kernel"` // its release: 6.1.0-18-amd64
	NUMANodes []int          `json:"numa_nodes"`
	Governors map[string]int `json:"governors"` // CPUs by frequency governor
	Memlock   *Memlock       `json:"memlock"`
	Cgroups   []Cgroup       `json:"cgroups"`
	GPUs      []GPU          `json:"gpus"`
	Devices   []DeviceFacts  `json:"devices"`

	Missing []Missing `json:"missing,omitempty"` // what could not be read, except for what its own part lists
}

// DeviceFacts is all that this package knows of a device.
type DeviceFacts struct {
	Device // its Missing has what could not be read of the other fields also
	PCI
	IOMMU IOMMUGroup          `json:"iommu_group"`
	ACS   []string            `json:"acs_bridges"`   // they send packets for other devices up to the processor
	GPUs  map[string]Distance `json:"gpu_distances"` // by the PCI address of the GPU
	Links []Link              `json:"links"`         // of the ports, in their order
}

// Link is what a port is connected to.
type Link struct {
	Port     int       `json:"port"`
	GIDs     *GIDTable `json:"gids"` // nil if it could not be read
	PKeys    []PKey    `json:"pkeys"`
	Netdevs  []Netdev  `json:"netdevs"` // of the GIDs, sorted
	CMMode   string    `json:"cm_roce_mode"`
	Counters *Counters `json:"port_counters"`
}

// Read reads everything. What cannot be read is listed where it is missing. The error is one of the list of devices,
// and the rest is returned with it. A host without RDMA has no devices, and that is no error.
func (h Host) Read() (*Facts, error) {
	f := &Facts{Memlock: h.Memlock(), Devices: []DeviceFacts{}}
	f.Hostname = noted(h.Hostname())(&f.Missing)
	f.Kernel = noted(h.Kernel())(&f.Missing)
	f.NUMANodes = noted(h.NUMANodes())(&f.Missing)
	f.Governors = noted(h.Governors())(&f.Missing)
	f.Cgroups = noted(h.Cgroups())(&f.Missing)
	f.GPUs = noted(h.GPUs())(&f.Missing)
	devices, err := h.Devices()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	n := h.Namespace()
	for i := range devices {
		f.Devices = append(f.Devices, h.factsOf(n, &devices[i], f.GPUs))
	}
	return f, err
}

// noted returns a function that adds to a list what is missing of a value, and returns the value.
func noted[T any](v T, missing []Missing) func(*[]Missing) T {
	return func(all *[]Missing) T {
		*all = append(*all, missing...)
		return v
	}
}

// Hostname returns the name of the host.
func (h Host) Hostname() (string, []Missing) { return h.line("hostname") }

// Kernel returns the release of the host's kernel: 6.1.0-18-amd64.
func (h Host) Kernel() (string, []Missing) { return h.line("osrelease") }

// line reads a file of one line below sys/kernel.
func (h Host) line(name string) (string, []Missing) {
	text, err := h.proc("sys", "kernel", name)
	if err != nil {
		return "", []Missing{miss(h.ProcPath("sys", "kernel", name), err)}
	}
	return strings.TrimSpace(text), nil
}

func (h Host) factsOf(n *Namespace, d *Device, gpus []GPU) DeviceFacts {
	f := DeviceFacts{ACS: []string{}, GPUs: map[string]Distance{}, Links: []Link{}}
	f.PCI = h.PCI(d)
	f.IOMMU = noted(h.IOMMU(d.Name))(&d.Missing)
	if d.PCIAddress != "" {
		f.ACS = noted(h.ACS(d.PCIAddress))(&d.Missing)
		for _, g := range gpus {
			f.GPUs[g.PCIAddress] = h.Distance(d.PCIAddress, g.PCIAddress)
		}
	}
	for i := range d.Ports {
		f.Links = append(f.Links, h.link(n, d, d.Ports[i].Number))
	}
	f.Device = *d
	return f
}

// link reads what a port is connected to.
func (h Host) link(n *Namespace, d *Device, port int) Link {
	l := Link{Port: port, Netdevs: []Netdev{}}
	failed := func(err error) {
		if err != nil && !absent(err) {
			at := h.SysPath("class", "infiniband", d.Name, "ports", fmt.Sprint(port))
			d.Missing = append(d.Missing, miss(at, err))
		}
	}
	l.PKeys = noted(h.PKeys(d.Name, port))(&d.Missing)
	l.CMMode = noted(h.CMRoCEMode(d.Name, port))(&d.Missing)
	var err error
	l.GIDs, err = n.Table(d, port)
	failed(err)
	if l.GIDs != nil {
		for _, e := range l.GIDs.Entries {
			if !slices.ContainsFunc(l.Netdevs, func(d Netdev) bool { return d.Name == e.Netdev }) {
				if own := n.Netdev(e.Netdev); own != nil {
					l.Netdevs = append(l.Netdevs, *own)
				}
			}
		}
		slices.SortFunc(l.Netdevs, func(a, b Netdev) int { return CompareNames(a.Name, b.Name) })
	}
	l.Counters, err = h.Counters(d.Name, port)
	failed(err)
	return l
}
