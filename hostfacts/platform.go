package hostfacts

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// NUMANodes returns the numbers of the host's NUMA nodes, in order; none if the host does not report them.
func (h Host) NUMANodes() ([]int, []Missing) { return h.numbered("node", "devices", "system", "node") }

// CPUs returns the numbers of the host's CPUs, in order; none if the host does not report them.
func (h Host) CPUs() ([]int, []Missing) { return h.numbered("cpu", "devices", "system", "cpu") }

// numbered lists the entries of a directory that are a word and a number.
func (h Host) numbered(word string, dir ...string) ([]int, []Missing) {
	r, list := h.reader(), []int{}
	for _, n := range r.names(dir...) {
		digits, ok := strings.CutPrefix(n, word)
		if v, err := strconv.ParseUint(digits, 10, 31); ok && err == nil && digits == strconv.FormatUint(v, 10) {
			list = append(list, int(v))
		}
	}
	slices.Sort(list)
	return list, r.missing
}

// Governors counts the CPUs by their frequency governor. It is empty on virtual machines, whose host chooses.
func (h Host) Governors() (count map[string]int, missing []Missing) {
	r, count := h.reader(), map[string]int{}
	cpus, missing := h.CPUs()
	for _, cpu := range cpus {
		at := fmt.Sprintf("cpu%d", cpu)
		if g := r.attr("devices", "system", "cpu", at, "cpufreq", "scaling_governor"); g != "" {
			count[g]++
		}
	}
	return count, append(missing, r.missing...)
}

// IOMMUGroup is the group of a device in the IOMMU of the host. The zero group is that of a device that has none.
type IOMMUGroup struct {
	Name string `json:"name"` // 15
	Kind string `json:"kind"` // IOMMUIdentity, DMA, DMA-FQ
}

// IOMMUIdentity is the kind of an IOMMU group whose devices' addresses are passed through.
const IOMMUIdentity = "identity"

// IOMMU reads the IOMMU group of a device.
func (h Host) IOMMU(device string) (g IOMMUGroup, missing []Missing) {
	r := h.reader()
	if len(r.names("class", "iommu")) == 0 {
		return g, r.missing
	}
	link, err := r.Link("class", "infiniband", device, "device", "iommu_group")
	if err != nil {
		return g, r.missing
	}
	g.Name = filepath.Base(link)
	g.Kind = r.attr("kernel", "iommu_groups", g.Name, "type")
	return g, r.missing
}

// ACS returns the bridges above a PCI device whose access control sends packets between devices, such as an adapter and
// a GPU, up to the processor. It needs root, because the kernel shows others only a part of a bridge's configuration.
func (h Host) ACS(pciAddress string) ([]string, []Missing) {
	r, bridges := h.reader(), []string{}
	link, err := r.Link("bus", "pci", "devices", pciAddress)
	if err != nil {
		return bridges, nil
	}
	for at := filepath.Dir(link); strings.Contains(filepath.Base(at), ":"); at = filepath.Dir(at) {
		bridge := filepath.Base(at)
		if config, _ := r.read("bus", "pci", "devices", bridge, "config"); redirects([]byte(config)) {
			bridges = append(bridges, bridge)
		}
	}
	return bridges, r.missing
}

// redirects reports whether a bridge's ACS control has request redirection on. config is its configuration space.
func redirects(config []byte) bool {
	const first, idACS = 0x100, 0x0d
	for at, hops := first, 0; at >= first && at+4 <= len(config) && hops < 64; hops++ {
		header := uint32(config[at]) | uint32(config[at+1])<<8 | uint32(config[at+2])<<16 | uint32(config[at+3])<<24
		if header&0xffff == idACS {
			return at+6 < len(config) && config[at+6]&(1<<2) != 0
		}
		at = int(header >> 20)
	}
	return false
}

// FullMember is the bit of a P_Key that makes a full member of its partition. Two limited members cannot reach each
// other.
const FullMember = 0x8000

// PKey is an entry of a port's table of partition keys.
type PKey struct {
	Index int    `json:"index"`
	Key   uint16 `json:"pkey"`
}

// Full reports whether the port is a full member of the partition.
func (k PKey) Full() bool { return k.Key&FullMember != 0 }

// Empty reports whether the entry names no partition.
func (k PKey) Empty() bool { return k.Key&^FullMember == 0 }

// PKeys reads the table of partition keys of a port, in order of index.
func (h Host) PKeys(device string, port int) ([]PKey, []Missing) {
	r, list := h.reader(), []PKey{}
	where := []string{"class", "infiniband", device, "ports", strconv.Itoa(port), "pkeys"}
	for _, n := range r.names(where...) {
		index, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			continue
		}
		if key := r.number(math.MaxUint16, append(slices.Clone(where), n)...); key >= 0 {
			list = append(list, PKey{Index: int(index), Key: uint16(key)})
		}
	}
	return list, r.missing
}

// CMRoCEMode returns the type of the GIDs by which rdma_cm connects from a port, as the kernel writes it: "RoCE v2". It
// is empty if the host does not say.
func (h Host) CMRoCEMode(device string, port int) (mode string, missing []Missing) {
	r := h.reader()
	mode = r.attr("kernel", "config", "rdma_cm", device, "ports", strconv.Itoa(port), "default_roce_mode")
	return mode, r.missing
}
