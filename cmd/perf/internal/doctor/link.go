package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/counter"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// fastest is the rate of a port of each model in Gb/s; boards of a model may have less.
var fastest = map[string]int64{
	"ConnectX-4": 100, "ConnectX-4 Lx": 50, "ConnectX-5": 100, "ConnectX-5 Ex": 100, "ConnectX-6": 200,
	"ConnectX-6 Dx": 200, "ConnectX-6 Lx": 50, "ConnectX-7": 400, "ConnectX-8": 800, "ConnectX-9": 800,
	"BlueField": 100, "BlueField-2": 200, "BlueField-3": 400, "BlueField-4": 800,
}

// lowShare is the share of its model's rate below which a link is taken for one that came up wrong: cheaper boards of
// a model, and slower switches, have an eighth.
const lowShare = 16

// link checks whether a port came up at the rate that can be expected of it. same has the rates of the active ports of
// the same model on this host.
func (x *examination) link(d *Device, p sysfs.Port, name string, same []int64) {
	if d.PCIAddress == "" || p.StateName != sysfs.StateActive || p.RateBits == 0 || d.Function != "PF" {
		return
	}
	f := Finding{Severity: Warning, Subject: name, Check: "link",
		Evidence: fmt.Sprintf("%s/%s/ports/%d/rate: %s", x.Sys.ClassDir(), d.Name, p.Number, p.Rate),
		Remedy: fmt.Sprintf("mlxlink -d %s -p %d -m -c -e    # cable, forced speed, switch port", d.PCIAddress,
			p.Number)}
	most := fastest[d.Model]
	switch best := slices.Max(append(same, p.RateBits)); {
	case most > 0 && p.RateBits*lowShare < most*1e9:
		f.Text = fmt.Sprintf("the link came up at %s; ports of a %s have up to %d Gb/s", p.Rate, d.Model, most)
	case p.LinkLayer == sysfs.LinkInfiniBand && (strings.Contains(p.Rate, "(1X") || strings.Contains(p.Rate, "(2X")):
		f.Text = fmt.Sprintf("the link came up at %s, with lanes missing: InfiniBand cables have 4", p.Rate)
	case p.RateBits < best:
		f.Text = fmt.Sprintf("the link came up at %s; another port of this model here has %d Gb/s", p.Rate, best/1e9)
	default:
		f.Severity, f.Remedy = OK, ""
		f.Text = "the rate is that of the other ports of this model, and not far below the model's"
	}
	x.add(f)
}

// rates returns the rates of the active ports by the PCI ID of their devices.
func rates(devs []Device) map[string][]int64 {
	all := map[string][]int64{}
	for i := range devs {
		for _, p := range devs[i].Ports {
			if p.StateName == sysfs.StateActive && devs[i].Function == "PF" {
				all[devs[i].PCIID] = append(all[devs[i].PCIID], p.RateBits)
			}
		}
	}
	return all
}

// counted are the counters of a port.
type counted map[string]uint64

// readFaults reads the counters of all ports, by port.
func (x *examination) readFaults() map[string]counted {
	all := map[string]counted{}
	for i := range x.Devices {
		for _, p := range x.Devices[i].Ports {
			all[fmt.Sprintf("%s/%d", x.Devices[i].Name, p.Number)] = x.Sys.Counters(x.Devices[i].Name, uint8(p.Number))
		}
	}
	return all
}

// errors checks counters of faults: how many since the driver was loaded, and whether they rise within a second.
func (x *examination) errors() {
	before := x.readFaults()
	x.Second()
	after := x.readFaults()
	for i := range x.Devices {
		for _, p := range x.Devices[i].Ports {
			name := fmt.Sprintf("%s/%d", x.Devices[i].Name, p.Number)
			x.errorsOf(name, fmt.Sprintf("%s/%s/ports/%d/{counters,hw_counters}", x.Sys.ClassDir(), x.Devices[i].Name,
				p.Number), before[name], after[name])
		}
	}
}

func (x *examination) errorsOf(name, where string, before, after counted) {
	var old, rising, seen []string
	for c, t := range counter.Troubles {
		if !t.Fault {
			continue
		}
		n, ok := after[c]
		b, also := before[c]
		switch {
		case !ok:
			continue
		case also && n > b:
			rising = append(rising, t.Note(c, n-b))
		case n > 0: // or it was reset meanwhile
			old = append(old, fmt.Sprintf("%s %d", c, n))
		}
		seen = append(seen, c)
	}
	slices.Sort(rising)
	slices.Sort(old)
	f := Finding{Subject: name, Check: "errors", Evidence: where,
		Remedy: "ibqueryerrors; ethtool -S NETDEV    # which counter rises under load"}
	switch {
	case len(seen) == 0:
		f.Severity, f.Text, f.Remedy = Note, "the port shows no counters of errors, as in containers: not checked", ""
	case len(rising) > 0:
		f.Severity, f.Text = Warning, "errors occur now: "+strings.Join(rising, "; ")
	case len(old) > 0:
		f.Severity, f.Text = Note, "errors since the driver was loaded: "+strings.Join(old, ", ")
	default:
		f.Text, f.Remedy = "no errors since the driver was loaded", ""
	}
	x.add(f)
}
