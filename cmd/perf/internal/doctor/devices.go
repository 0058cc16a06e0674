package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/ibv"
)

func (x *examination) devices() {
	devs, err := x.Facts.Devices()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // modules reports that there are none
		x.add(Finding{Severity: Error, Subject: "host", Check: "device", Text: "devices cannot be read",
			Evidence: err.Error(),
			Remedy:   "ls -l " + x.sysfs().ClassDir() + "    # sysfs is open to everybody by default"})
	}
	active, withheld := false, x.withheld()
	all := x.identified(devs)
	x.rates(all)
	for _, d := range all {
		if err, no := withheld[d.Name]; no {
			x.add(Finding{Severity: Note, Subject: d.Name, Check: "device",
				Text:     "this container was not given the device",
				Evidence: err.Error() + "; a container (" + x.Container + ")"})
			continue
		}
		for _, p := range d.Ports {
			active = active || p.Active()
		}
		x.device(&d)
		x.Devices = append(x.Devices, d)
	}
	if len(devs) > 0 && !active {
		x.add(Finding{Severity: Error, Subject: "host", Check: "port", Text: "no port of any device is ACTIVE",
			Evidence: x.sysfs().ClassDir() + "/*/ports/*/state", Remedy: "rdma link    # then bring a link up"})
	}
}

// identified returns devices with what they are and which of them share a card.
func (x *examination) identified(devs []hostfacts.Device) []Device {
	all := make([]Device, len(devs))
	for i := range devs {
		pci := x.Facts.PCI(&devs[i])
		all[i] = Device{Device: devs[i], PCI: pci, Links: []Link{}}
	}
	x.seat(all)
	return all
}

func (x *examination) device(d *Device) {
	what := d.Model
	for _, s := range []string{string(d.Function), d.Driver} {
		if s != "" {
			what = strings.TrimSpace(what + " " + s)
		}
	}
	if d.FirmwareVersion != "" {
		what += ", firmware " + d.FirmwareVersion
	}
	x.add(Finding{Subject: d.Name, Check: "device", Text: what,
		Evidence: fmt.Sprintf("%s %s %s, %s", d.PCIAddress, d.PCI.ID, d.BoardID, x.sysfs().ClassDir()+"/"+d.Name)})
	usable := x.node(d)
	x.pcie(d)
	if d.PCIAddress != "" {
		x.acs(d)
	}
	x.numa(d)
	x.cgroup(d)
	var mtus map[int]int
	if usable {
		mtus = x.open(d)
	}
	for _, p := range d.Ports {
		l := Link{Port: p.Number, MTU: mtus[p.Number], Lossless: map[string]string{}}
		x.port(d, p, &l)
		d.Links = append(d.Links, l)
	}
	if mtus != nil { // it can be opened
		x.checkNative(d)
	}
}

// open opens the device if there is a library, and returns the active MTU by port.
func (x *examination) open(d *Device) (mtus map[int]int) {
	var err error
	if !x.noVerbs && !x.unlisted[d.Name] {
		mtus, err = x.MTUs(d.Name)
	}
	path := filepath.Join(x.Dev, "infiniband", d.Uverbs)
	if errors.Is(err, fs.ErrPermission) {
		x.add(x.unusable(d.Name, "permission", path, "ib_uverbs", err))
		return nil
	}
	x.add(Finding{Subject: d.Name, Check: "permission", Text: "this user can open the device file", Evidence: path})
	if err != nil {
		remedy := "dmesg | tail    # " + d.Driver
		var bad *ibv.ArgError
		if errors.As(err, &bad) {
			if name, ok := strings.CutPrefix(bad.Arg, "the environment variable "); ok {
				remedy = "unset " + name
			}
		}
		x.add(Finding{Severity: Error, Subject: d.Name, Check: "open", Text: "the device cannot be opened",
			Evidence: err.Error(), Remedy: remedy})
	}
	return mtus
}

// node checks the device's file, and reports whether the file lets the device be opened.
func (x *examination) node(d *Device) bool {
	if d.Uverbs == "" {
		return false // ib_uverbs is not loaded: modules said so
	}
	path := filepath.Join(x.Dev, "infiniband", d.Uverbs)
	if err := x.Access(path); err != nil {
		x.add(x.unusable(d.Name, "permission", path, "ib_uverbs", err))
		return false
	}
	return true
}

func (x *examination) numa(d *Device) {
	if d.PCIAddress == "" {
		return
	}
	nodes, _ := x.Facts.NUMANodes()
	count := len(nodes)
	f := Finding{Subject: d.Name, Check: "numa", Evidence: x.sysfs().ClassDir() + "/" + d.Name + "/device/numa_node"}
	switch {
	case d.NUMANode < 0 && count > 1:
		f.is(Warning, "dmesg | grep -i numa    # firmware settings of the slot",
			"the host has %d NUMA nodes and does not report the node of the device", count)
		if d.Function != hostfacts.PF || virtual[d.Driver] {
			f.Severity, f.Remedy = Note, "" // the hypervisor's business
		}
	case d.NUMANode >= 0 && count > 1:
		f.is(Note, fmt.Sprintf("numactl --cpunodebind=%d --membind=%[1]d rdmaperf ...", d.NUMANode),
			"the device is on NUMA node %d of %d", d.NUMANode, count)
	default:
		return
	}
	x.add(f)
}

// cgroup looks whether the control group, or one above it, bounds how many objects may be made.
func (x *examination) cgroup(d *Device) {
	if x.groups == nil {
		x.groups, _ = x.Facts.Cgroups()
	}
	for _, g := range x.groups {
		if g.Device == d.Name {
			x.add(Finding{Severity: Warning, Subject: d.Name, Check: "cgroup",
				Text:     "the control group limits the objects of the device: " + g.Limit,
				Evidence: g.Path, Remedy: "echo '" + d.Name + " hca_handle=max hca_object=max' > " + g.Path})
		}
	}
}
