package doctor

import (
	"errors"
	"fmt"
	"slices"
)

// Spoilers returns what makes the figures of a test on a port worse than those of the device: CPUs, IOMMU, PCIe, MTU.
// gid is the index of the test's GID, or negative; mtu is that of the port, or 0 where it does not matter.
func Spoilers(h *Host, device string, port, gid, mtu int) []Finding {
	x := newExamination(h, &Report{})
	x.processor()
	x.iommu()
	devs, _ := h.Facts.Devices()
	all := x.identified(devs)
	d := &Device{}
	if i := slices.IndexFunc(all, func(d Device) bool { return d.Name == device }); i >= 0 {
		d = &all[i]
		x.pcie(d)
	}
	if gid >= 0 && port >= 0 && port < 256 {
		if netdev := h.sysfs().GIDEntry(device, uint8(port), gid).Netdev; netdev != "" {
			x.mtu(d, fmt.Sprintf("%s/%d", device, port), &Link{Port: port, MTU: mtu, Netdev: netdev})
		}
	}
	var out []Finding
	for _, f := range x.Findings {
		about := f.Subject == "host" || f.Subject == device || f.Subject == fmt.Sprintf("%s/%d", device, port)
		if about && (f.Severity >= Warning || f.Check == "mtu" && f.Severity == Note) {
			out = append(out, f)
		}
	}
	return out
}

// Warning returns the finding as an error with its remedy.
func (f *Finding) Warning() error {
	s := fmt.Sprintf("warning: %s: %s", f.Subject, f.Text)
	if f.Remedy != "" {
		s += "; " + f.Remedy
	}
	return errors.New(s)
}
