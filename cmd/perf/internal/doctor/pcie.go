package doctor

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// PCIe is the device's link to the processor.
type PCIe struct {
	Speed    float64 `json:"gigatransfers_per_second"` // of a lane, 0 if not known
	MaxSpeed float64 `json:"max_gigatransfers_per_second"`
	Width    int     `json:"width"`
	MaxWidth int     `json:"max_width"`
}

// Bits returns what the link carries in a second, before the headers of its packets.
func (p *PCIe) Bits() int64 { return carries(p.Speed, p.Width) }

// most returns what the device's link could carry.
func (p *PCIe) most() int64 { return max(carries(p.MaxSpeed, p.MaxWidth), p.Bits()) }

func carries(gigatransfers float64, width int) int64 {
	coding := 128.0 / 130
	if gigatransfers < 8 {
		coding = 0.8
	}
	return int64(gigatransfers * float64(width) * coding * 1e9)
}

// model is a kind of mlx5 devices.
type model struct {
	ids    string // PCI device IDs
	name   string
	gbps   int64  // of the fastest port; boards of a model may have less
	kernel string // the first Linux that knows the fastest speed of InfiniBand
}

var models = []model{
	{"1011 1012", "Connect-IB", 56, ""},
	{"1013 1014", "ConnectX-4", 100, ""},
	{"1015 1016", "ConnectX-4 Lx", 50, ""},
	{"1017 1018", "ConnectX-5", 100, ""},
	{"1019 101a", "ConnectX-5 Ex", 100, ""},
	{"101b 101c", "ConnectX-6", 200, "4.13"},
	{"101d", "ConnectX-6 Dx", 200, "4.13"},
	{"101e", "ConnectX virtual function", 0, ""},
	{"101f", "ConnectX-6 Lx", 50, ""},
	{"1021", "ConnectX-7", 400, "5.9"},
	{"1023", "ConnectX-8", 800, "6.7"},
	{"1025", "ConnectX-9", 800, "6.7"},
	{"a2d2 a2d3", "BlueField", 100, ""},
	{"a2d6", "BlueField-2", 200, "4.13"},
	{"a2dc", "BlueField-3", 400, "5.9"},
	{"a2df", "BlueField-4", 800, "6.7"},
}

// modelOf returns the model of a PCI ID, the zero model for others.
func modelOf(pciID string) model {
	if id, ok := strings.CutPrefix(pciID, "15b3:"); ok {
		for _, m := range models {
			if slices.Contains(strings.Fields(m.ids), id) {
				return m
			}
		}
	}
	return model{}
}

// virtual are the drivers of devices that only clouds have. Their PCIe link and NUMA node are the hypervisor's.
var virtual = map[string]bool{"efa": true, "mana": true, "erdma": true, "vmw_pvrdma": true}

// identify fills in what the device is.
func (x *examination) identify(d *Device) {
	d.PCIID = x.Sys.PCIID(d.Name)
	d.Model = modelOf(d.PCIID).name
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

// card is all functions of one slot, or of two if they are one card (Socket Direct).
type card struct {
	bits, most int64    // what its PCIe links carry, and what they could
	need, port int64    // of all active ports, and of the fastest
	ports      []string // the active ones
}

// seat finds the functions that share a card, and adds up what their ports need. A VF or SF has a port of its PF, so it
// is alone.
func (x *examination) seat(devs []Device) {
	slots, halves := map[string]*card{}, map[string][]*card{}
	for i := range devs {
		d := &devs[i]
		if d.PCIe == nil {
			continue
		}
		slot, _, _ := strings.Cut(d.PCIAddress, ".")
		if d.Function != "PF" {
			slot = d.Name
		}
		c := slots[slot]
		if c == nil {
			c = &card{bits: d.PCIe.Bits(), most: d.PCIe.most()}
			slots[slot] = c
			if d.Function == "PF" && d.SystemImageGUID != "" && d.SystemImageGUID != noGUID {
				halves[d.SystemImageGUID] = append(halves[d.SystemImageGUID], c)
			}
		}
		for _, p := range d.Ports {
			if p.StateName == sysfs.StateActive && p.RateBits > 0 {
				c.need, c.port = c.need+data(p), max(c.port, data(p))
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
	p, c := d.PCIe, x.cards[d.Name]
	if p == nil || c == nil {
		return
	}
	f := Finding{Subject: d.Name, Check: "pcie", Evidence: fmt.Sprintf("%s/bus/pci/devices/%s/{current,max}_link_*: "+
		"%v GT/s x%d of %v GT/s x%d; active ports: %s", x.Sys, d.PCIAddress, p.Speed, p.Width, p.MaxSpeed, p.MaxWidth,
		cmp.Or(strings.Join(c.ports, ", "), "none"))}
	below := c.bits < c.most
	switch {
	case !(p.Speed > 0) || p.Width < 1 || virtual[d.Driver]:
		f.Severity, f.Text = Note, "PCIe link width and speed not known, as for a virtual function"
	case c.port > c.bits, below && c.need > c.bits:
		f.Severity = Warning
		f.Text = fmt.Sprintf("PCIe carries %d Gb/s, the ports %d", c.bits/1e9, c.need/1e9)
		f.Remedy = "lspci -vv -s " + d.PCIAddress +
			" | grep -e LnkCap -e LnkSta    # slot, and its settings in the BIOS"
	case c.need > c.bits:
		f.Severity = Note
		f.Text = fmt.Sprintf("the ports have %d Gb/s together, more than the %d of the card's own PCIe link",
			c.need/1e9, c.bits/1e9)
	case below:
		f.Severity = Note
		f.Text = fmt.Sprintf("the PCIe link runs below the maximum of the device: %v GT/s x%d of %v GT/s x%d; it "+
			"carries %d Gb/s, the ports %d", p.Speed, p.Width, p.MaxSpeed, p.MaxWidth, c.bits/1e9, c.need/1e9)
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
