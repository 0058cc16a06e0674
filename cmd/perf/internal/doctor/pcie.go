package doctor

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// virtual are the drivers of devices that only clouds have. Their PCIe link and NUMA node are the hypervisor's.
var virtual = map[string]bool{"efa": true, "mana": true, "erdma": true, "vmw_pvrdma": true}

// seat finds the functions that share a card, and adds up what their ports need. A VF or SF has a port of its PF, so it
// is alone.
func (x *examination) seat(devs []Device) {
	slots, halves := map[string]*card{}, map[string][]*card{}
	for i := range devs {
		d := &devs[i]
		if d.PCI.Link == nil {
			continue
		}
		slot, _, _ := strings.Cut(d.PCIAddress, ".")
		if d.Function != hostfacts.PF {
			slot = d.Name
		}
		c := slots[slot]
		if c == nil {
			c = &card{bits: d.PCI.Link.Bits(), most: d.PCI.Link.MaxBits()}
			slots[slot] = c
			if d.Function == hostfacts.PF && d.SystemImageGUID != "" && d.SystemImageGUID != noGUID {
				halves[d.SystemImageGUID] = append(halves[d.SystemImageGUID], c)
			}
		}
		for _, p := range d.Ports {
			if p.Active() && p.RateBits > 0 {
				c.need, c.port = c.need+p.DataBits(), max(c.port, p.DataBits())
				c.ports = append(c.ports, fmt.Sprintf("%s/%d %s", d.Name, p.Number, p.Rate))
			}
		}
		x.cards[d.Name] = c
	}
	for _, list := range halves { // both show the same ports
		sum := card{}
		for _, c := range list {
			sum.bits, sum.most = sum.bits+c.bits, sum.most+c.most
			if c.need > sum.need {
				sum.need, sum.port, sum.ports = c.need, c.port, c.ports
			}
		}
		for _, c := range list {
			*c = sum
		}
	}
}

// pcie checks the link between the device and the processor.
func (x *examination) pcie(d *Device) {
	p, c := d.PCI.Link, x.cards[d.Name]
	if p == nil || c == nil {
		return
	}
	f := Finding{Subject: d.Name, Check: "pcie", Evidence: fmt.Sprintf("%s/bus/pci/devices/%s/{current,max}_link_*: "+
		"%v GT/s x%d of %v GT/s x%d; active ports: %s", x.sysfs(), d.PCIAddress, p.Speed, p.Width, p.MaxSpeed,
		p.MaxWidth, cmp.Or(strings.Join(c.ports, ", "), "none"))}
	below := c.bits < c.most
	switch {
	case !(p.Speed > 0) || p.Width < 1 || virtual[d.Driver]:
		f.Severity, f.Text = Note, "PCIe link width and speed not known, as for a virtual function"
	case c.port > c.bits, below && c.need > c.bits:
		f.is(Warning, "lspci -vv -s "+d.PCIAddress+
			" | grep -e LnkCap -e LnkSta    # slot, and its settings in the BIOS",
			"PCIe carries %d Gb/s, the ports %d", c.bits/1e9, c.need/1e9)
	case c.need > c.bits:
		f.is(Note, "", "the ports have %d Gb/s together, more than the %d of the card's own PCIe link", c.need/1e9,
			c.bits/1e9)
	case below:
		f.is(Note, "", "the PCIe link runs below the maximum of the device: %v GT/s x%d of %v GT/s x%d; it "+
			"carries %d Gb/s, the ports %d", p.Speed, p.Width, p.MaxSpeed, p.MaxWidth, c.bits/1e9, c.need/1e9)
	default:
		f.Text = fmt.Sprintf("PCIe %v GT/s x%d, %d Gb/s", p.Speed, p.Width, p.Bits()/1e9)
	}
	x.add(f)
}

// iommu checks the IOMMU of this host.
func (x *examination) iommu() {
	names, _ := x.sysfs().DeviceNames()
	for _, dev := range names {
		g, _ := x.Facts.IOMMU(dev)
		if g.Kind == "" {
			continue
		}
		f := Finding{Subject: dev, Check: "iommu", Text: "the IOMMU passes the addresses of the device through",
			Evidence: fmt.Sprintf("%s/kernel/iommu_groups/%s/type: %s", x.sysfs(), g.Name, g.Kind)}
		if g.Kind != hostfacts.IOMMUIdentity {
			f.is(Warning, "boot with iommu=pt    # intel_iommu=on iommu=pt on Intel",
				"the IOMMU translates the device's addresses: registration is slower, and transfers may be")
		}
		x.add(f)
	}
}

// acs looks whether the switches above the device send packets between devices up to the processor.
func (x *examination) acs(d *Device) {
	found, _ := x.Facts.ACS(d.PCIAddress)
	if len(found) > 0 {
		x.add(Finding{Severity: Note, Subject: d.Name, Check: "acs",
			Text: "ACS routes packets between this device and others (GPUs) through the CPU",
			Evidence: "ACSCtl ReqRedir+ in " + x.sysfs().String() + "/bus/pci/devices/{" + strings.Join(found, ",") +
				"}/config",
			Remedy: "setpci -s " + found[0] + " ECAP_ACS+6.w=0000    # not below a hypervisor; GPUDirect only"})
	}
}
