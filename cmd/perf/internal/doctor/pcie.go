package doctor

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// PCIe is the device's link to the processor.
type PCIe struct {
	Speed    float64 `json:"gigatransfers_per_second"` // of a lane, 0 if not known
	MaxSpeed float64 `json:"max_gigatransfers_per_second"`
	Width    int     `json:"width"`
	MaxWidth int     `json:"max_width"`
}

// Bits returns what the link carries in a second, before the headers of its packets.
func (p *PCIe) Bits() int64 {
	coding := 128.0 / 130
	if p.Speed < 8 {
		coding = 0.8
	}
	return int64(p.Speed * float64(p.Width) * coding * 1e9)
}

// models are the names of mlx5 devices by PCI device ID.
var models = map[string]string{
	"1013": "ConnectX-4", "1014": "ConnectX-4", "1015": "ConnectX-4 Lx", "1016": "ConnectX-4 Lx",
	"1017": "ConnectX-5", "1018": "ConnectX-5", "1019": "ConnectX-5 Ex", "101a": "ConnectX-5 Ex",
	"101b": "ConnectX-6", "101c": "ConnectX-6", "101d": "ConnectX-6 Dx", "101e": "ConnectX virtual function",
	"101f": "ConnectX-6 Lx", "1021": "ConnectX-7", "1023": "ConnectX-8", "1025": "ConnectX-9",
	"a2d2": "BlueField", "a2d3": "BlueField", "a2d6": "BlueField-2", "a2dc": "BlueField-3", "a2df": "BlueField-4",
}

// identify fills in what the device is.
func (x *examination) identify(d *Device) {
	d.PCIID = x.Sys.PCIID(d.Name)
	if id, ok := strings.CutPrefix(d.PCIID, "15b3:"); ok {
		d.Model = models[id]
	}
	if d.PCIAddress == "" {
		return
	}
	d.Function = "PF"
	if _, err := x.Sys.Link("class", "infiniband", d.Name, "device", "physfn"); err == nil {
		d.Function = "VF"
	} else if strings.HasSuffix(d.Driver, ".sf") {
		d.Function = "SF"
	}
	at := func(name string) string {
		s, _ := x.Sys.Attr("bus", "pci", "devices", d.PCIAddress, name)
		if s == "" {
			s, _ = x.Sys.Attr("class", "infiniband", d.Name, "device", name)
		}
		s, _, _ = strings.Cut(strings.TrimSpace(s), " ")
		return s
	}
	speed := func(name string) float64 { v, _ := strconv.ParseFloat(at(name), 64); return v }
	width := func(name string) int { v, _ := strconv.Atoi(at(name)); return v }
	d.PCIe = &PCIe{Speed: speed("current_link_speed"), MaxSpeed: speed("max_link_speed"),
		Width: width("current_link_width"), MaxWidth: width("max_link_width")}
}

// pcie checks the link between the device and the processor.
func (x *examination) pcie(d *Device) {
	p := d.PCIe
	if p == nil {
		return
	}
	f := Finding{Subject: d.Name, Check: "pcie", Evidence: fmt.Sprintf("%s/bus/pci/devices/%s/{current,max}_link_*: "+
		"%v GT/s x%d of %v GT/s x%d", x.Sys, d.PCIAddress, p.Speed, p.Width, p.MaxSpeed, p.MaxWidth)}
	var rate int64
	for _, port := range d.Ports {
		rate += port.RateBits
	}
	switch {
	case !(p.Speed > 0) || p.Width < 1:
		f.Severity, f.Text = Note, "PCIe link width and speed not known, as for a virtual function"
	case p.Bits() < rate:
		f.Severity = Warning
		f.Text = fmt.Sprintf("PCIe carries %d Gb/s, the ports %d", p.Bits()/1e9, rate/1e9)
		f.Remedy = "lspci -vv -s " + d.PCIAddress +
			" | grep -e LnkCap -e LnkSta    # slot, and its settings in the BIOS"
	case p.Speed < p.MaxSpeed || p.Width < p.MaxWidth:
		f.Severity = Warning
		f.Text = fmt.Sprintf("the PCIe link runs below the maximum of the device: %v GT/s x%d of %v GT/s x%d", p.Speed,
			p.Width,
			p.MaxSpeed, p.MaxWidth)
		f.Remedy = "lspci -vv -s " + d.PCIAddress +
			" | grep -e LnkCap -e LnkSta    # slot, and its settings in the BIOS"
	default:
		f.Text = fmt.Sprintf("PCIe %v GT/s x%d, %d Gb/s", p.Speed, p.Width, p.Bits()/1e9)
	}
	x.add(f)
}

// iommu checks the IOMMU of this host.
func (x *examination) iommu() {
	units, _ := x.Sys.Names("class", "iommu")
	if len(units) == 0 {
		return
	}
	names, _ := x.Sys.DeviceNames()
	for _, dev := range names {
		link, err := x.Sys.Link("class", "infiniband", dev, "device", "iommu_group")
		if err != nil {
			continue
		}
		group := filepath.Base(link)
		kind, err := x.Sys.Attr("kernel", "iommu_groups", group, "type")
		if err != nil {
			continue
		}
		f := Finding{Subject: dev, Check: "iommu", Text: "the IOMMU passes the addresses of the device through",
			Evidence: fmt.Sprintf("%s/kernel/iommu_groups/%s/type: %s", x.Sys, group, kind)}
		if kind != "identity" {
			f.Severity, f.Text = Warning,
				"the IOMMU translates the device's addresses: registration is slower, and transfers may be"
			f.Remedy = "boot with iommu=pt    # intel_iommu=on iommu=pt on Intel"
		}
		x.add(f)
	}
}

// acs looks whether the switches above the device send packets between devices up to the processor.
func (x *examination) acs(d *Device) {
	link, err := x.Sys.Link("bus", "pci", "devices", d.PCIAddress)
	if err != nil {
		return
	}
	var found []string
	for at := filepath.Dir(link); strings.Contains(filepath.Base(at), ":"); at = filepath.Dir(at) {
		bridge := filepath.Base(at)
		config, err := x.Sys.Attr("bus", "pci", "devices", bridge, "config")
		if err == nil && redirects([]byte(config)) {
			found = append(found, bridge)
		}
	}
	if len(found) > 0 {
		x.add(Finding{Severity: Note, Subject: d.Name, Check: "acs",
			Text: "ACS routes packets between this device and others (GPUs) through the CPU",
			Evidence: "ACSCtl ReqRedir+ in " + x.Sys.String() + "/bus/pci/devices/{" + strings.Join(found, ",") +
				"}/config",
			Remedy: "setpci -s " + found[0] + " ECAP_ACS+6.w=0000    # not below a hypervisor; GPUDirect only"})
	}
}

// redirects reports whether a bridge's ACS control has request redirection on. config is its configuration space, which
// the kernel shows completely only to root.
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
