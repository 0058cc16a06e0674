package hostfacts

import (
	"slices"
	"strconv"
	"strings"
)

// Function is the kind of a device's PCI function.
type Function string

// The kinds of functions.
const (
	NoFunction Function = ""   // software
	PF         Function = "PF" // physical
	VF         Function = "VF" // virtual
	SF         Function = "SF" // a subfunction of mlx5
)

// PCI is the place of a device on the PCI bus, and what it is there. That of software is the zero PCI.
type PCI struct {
	Model    string   `json:"model"`  // ConnectX-7; empty if it is not known
	ID       string   `json:"pci_id"` // 15b3:1021
	Function Function `json:"function"`
	Link     *PCIe    `json:"pcie"` // nil for software
}

// PCIe is the link of a device, as it is and as it could be. Figures of a virtual function, and those that a driver
// does not report, are 0.
type PCIe struct {
	Speed    float64 `json:"gigatransfers_per_second"` // of a lane
	MaxSpeed float64 `json:"max_gigatransfers_per_second"`
	Width    int     `json:"width"` // lanes
	MaxWidth int     `json:"max_width"`
}

// Bits returns what the link carries in a second, before the headers of its packets.
func (p *PCIe) Bits() int64 { return carries(p.Speed, p.Width) }

// MaxBits returns what the device's link could carry in a second.
func (p *PCIe) MaxBits() int64 { return max(carries(p.MaxSpeed, p.MaxWidth), p.Bits()) }

func carries(gigatransfers float64, width int) int64 {
	coding := 128.0 / 130
	if gigatransfers < 8 {
		coding = 0.8
	}
	return int64(gigatransfers * float64(width) * coding * 1e9)
}

// Model is a kind of mlx5 devices.
type Model struct {
	Name     string // ConnectX-7; empty if it is not known
	PortGbps int64  // of the fastest port; boards of a model may have less
	Kernel   string // the first Linux that knows the fastest speed of InfiniBand; empty: all do
}

var models = []struct {
	ids string // PCI device IDs
	Model
}{
	{"1011 1012", Model{"Connect-IB", 56, ""}},
	{"1013 1014", Model{"ConnectX-4", 100, ""}},
	{"1015 1016", Model{"ConnectX-4 Lx", 50, ""}},
	{"1017 1018", Model{"ConnectX-5", 100, ""}},
	{"1019 101a", Model{"ConnectX-5 Ex", 100, ""}},
	{"101b 101c", Model{"ConnectX-6", 200, "4.13"}},
	{"101d", Model{"ConnectX-6 Dx", 200, "4.13"}},
	{"101e", Model{"ConnectX virtual function", 0, ""}},
	{"101f", Model{"ConnectX-6 Lx", 50, ""}},
	{"1021", Model{"ConnectX-7", 400, "5.9"}},
	{"1023", Model{"ConnectX-8", 800, "6.7"}},
	{"1025", Model{"ConnectX-9", 800, "6.7"}},
	{"a2d2 a2d3", Model{"BlueField", 100, ""}},
	{"a2d6", Model{"BlueField-2", 200, "4.13"}},
	{"a2dc", Model{"BlueField-3", 400, "5.9"}},
	{"a2df", Model{"BlueField-4", 800, "6.7"}},
}

// ModelOf returns the model of a PCI ID, "15b3:1021", and the zero Model for others than mlx5's.
func ModelOf(pciID string) Model {
	if id, ok := strings.CutPrefix(pciID, "15b3:"); ok {
		for _, m := range models {
			if slices.Contains(strings.Fields(m.ids), id) {
				return m.Model
			}
		}
	}
	return Model{}
}

// PCI reads what a device is on the PCI bus. What cannot be read is added to d.Missing.
func (h Host) PCI(d *Device) PCI {
	r := h.reader()
	defer func() { d.Missing = append(d.Missing, r.missing...) }()
	p := PCI{ID: r.pciID("class", "infiniband", d.Name, "device")}
	p.Model = ModelOf(p.ID).Name
	if d.PCIAddress == "" {
		return p
	}
	p.Function = PF
	if _, err := h.sys().Link("class", "infiniband", d.Name, "device", "physfn"); err == nil {
		p.Function = VF
	} else if strings.HasSuffix(d.Driver, ".sf") {
		p.Function = SF
	}
	speed := func(name string) float64 {
		text, at, known := r.link(d, name)
		v, err := strconv.ParseFloat(text, 64)
		if err == nil && v > 0 && v < 1e4 {
			return v
		}
		if known && text != "Unknown" {
			r.malformed(text, "a speed as 16.0 GT/s", at...)
		}
		return 0
	}
	width := func(name string) int {
		text, at, known := r.link(d, name)
		v, err := strconv.ParseUint(text, 10, 8)
		if known && err != nil {
			r.malformed(text, "a number of lanes", at...)
		}
		return int(v)
	}
	p.Link = &PCIe{Speed: speed("current_link_speed"), MaxSpeed: speed("max_link_speed"),
		Width: width("current_link_width"), MaxWidth: width("max_link_width")}
	return p
}

// link reads the first word of an attribute of a device's PCI function, and returns where.
func (r *reader) link(d *Device, name string) (text string, at []string, ok bool) {
	for _, at = range [][]string{{"bus", "pci", "devices", d.PCIAddress, name},
		{"class", "infiniband", d.Name, "device", name}} {
		if text, ok = r.read(at...); ok {
			break
		}
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), " ")
	return text, at, ok
}
