package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/counter"
	"github.com/pureverbs/pureverbs/hostfacts"
)

// lanes has how many lanes a link of InfiniBand has at least, by the kernel's name of the speed of a lane. Cables and
// cards have four up to EDR. From HDR on there are links of two by design: HDR100, NDR200 and two lanes of XDR, by a
// cable that splits a switch's port. On Ethernet drivers make lanes and speed up from the rate, so they mean nothing.
var lanes = map[string]int{"SDR": 4, "DDR": 4, "QDR": 4, "FDR10": 4, "FDR": 4, "EDR": 4, "HDR": 2, "NDR": 2, "XDR": 2}

// leastEthernet is the least rate for which any mlx5 device has cables; below it a port talks to a port for management.
const leastEthernet = 10e9

// link checks whether a port came up at the rate that can be expected of it.
func (x *examination) link(d *Device, p hostfacts.Port, name string) {
	if d.PCIAddress == "" || !p.Active() || p.RateBits == 0 || d.Function != hostfacts.PF {
		return
	}
	f := Finding{Severity: Warning, Subject: name, Check: "link",
		Evidence: fmt.Sprintf("%s/%s/ports/%d/rate: %s", x.sysfs().ClassDir(), d.Name, p.Number, p.Rate),
		Remedy: fmt.Sprintf("mlxlink -d %s -p %d -m -c -e    # cable, forced speed, switch port", d.PCIAddress,
			p.Number)}
	n, speed := p.Lanes()
	m, ib := hostfacts.ModelOf(d.PCI.ID), p.LinkLayer == hostfacts.InfiniBand
	slow := m.Name != "" && (ib && (speed == "SDR" || speed == "DDR") || !ib && p.RateBits < leastEthernet)
	same := x.kin(d, p)
	rail := x.fastest[same]
	same.network = ""
	switch board := x.fastest[same]; {
	case slow && ib && speed == "SDR" && x.before(m.Kernel):
		f.is(Note, "mlxlink -d "+d.PCIAddress,
			"the rate cannot be told: Linux %s prints that of SDR for speeds newer than itself", x.Kernel)
	case slow:
		f.Text = fmt.Sprintf("the link came up at %s; ports of a %s have up to %d Gb/s", p.Rate, m.Name, m.PortGbps)
	case ib && n > 0 && n < lanes[speed]:
		f.Text = fmt.Sprintf("the link came up at %s, with lanes missing: InfiniBand links of this speed have %d",
			p.Rate, lanes[speed])
	case p.RateBits < rail:
		f.Text = fmt.Sprintf("the link came up at %s; another port of this model here has %d Gb/s", p.Rate, rail/1e9)
	case p.RateBits < board:
		f.is(Note, "", "the link came up at %s; a port of this model on another network has %d Gb/s", p.Rate, board/1e9)
	default:
		f.is(OK, "", "the rate is that of the other ports of this board, and one that the model's cables have")
	}
	x.add(f)
}

// kin returns the ports with which a port can be compared. The network is the rail: that of the best GID's address on
// Ethernet, the subnet and its manager on InfiniBand.
func (x *examination) kin(d *Device, p hostfacts.Port) kin {
	k := kin{pci: d.PCI.ID, board: d.BoardID, layer: p.LinkLayer, network: "unknown"}
	t := x.table(d, p)
	switch {
	case t.best < 0:
	case t.list[t.best].Type == hostfacts.GIDTypeIB:
		k.network = fmt.Sprintf("%x %d", t.list[0].GID[:8], p.SMLID)
	default:
		if n := x.here.Network(&t.list[t.best]); n.IsValid() {
			k.network = n.String()
		}
	}
	return k
}

// rates finds the fastest active port of each kin.
func (x *examination) rates(devs []Device) {
	for i := range devs {
		for _, p := range devs[i].Ports {
			if !p.Active() || devs[i].Function != hostfacts.PF {
				continue
			}
			k := x.kin(&devs[i], p)
			x.fastest[k] = max(x.fastest[k], p.RateBits)
			k.network = ""
			x.fastest[k] = max(x.fastest[k], p.RateBits)
		}
	}
}

// before reports whether the kernel is older than a release, "5.9".
func (x *examination) before(release string) bool {
	var a, b [2]int
	fmt.Sscanf(x.Kernel, "%d.%d", &a[0], &a[1])
	fmt.Sscanf(release, "%d.%d", &b[0], &b[1])
	return slices.Compare(a[:], b[:]) < 0
}

// counted are the counters of a port.
type counted map[string]uint64

// readFaults reads the counters of all ports, by port.
func (x *examination) readFaults() map[string]counted {
	all := map[string]counted{}
	for i := range x.Devices {
		for _, p := range x.Devices[i].Ports {
			if c, err := x.Facts.Counters(x.Devices[i].Name, p.Number); err == nil {
				all[fmt.Sprintf("%s/%d", x.Devices[i].Name, p.Number)] = c.All()
			}
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
			x.errorsOf(name, fmt.Sprintf("%s/%s/ports/%d/{counters,hw_counters}", x.sysfs().ClassDir(),
				x.Devices[i].Name, p.Number), before[name], after[name])
		}
	}
}

func (x *examination) errorsOf(name, where string, before, after counted) {
	var old, rising, full, seen []string
	for _, c := range slices.Sorted(maps.Keys(after)) {
		n := after[c]
		b, also := before[c]
		note, fault, _ := counter.Note(c, n-b)
		most := hostfacts.CounterMax(c)
		if most > 0 && n == most {
			full = append(full, fmt.Sprintf("%s %d", c, most))
		}
		switch {
		case !fault:
			continue
		case also && n > b:
			rising = append(rising, note)
		case n > 0 && n != most: // or it was reset meanwhile
			old = append(old, fmt.Sprintf("%s %d", c, n))
		}
		seen = append(seen, c)
	}
	f := Finding{Subject: name, Check: "errors", Evidence: where}
	const under = "ibqueryerrors; ethtool -S NETDEV    # which counter rises under load"
	switch {
	case len(seen) == 0:
		f.is(Note, "", "the port shows no counters of errors, as in containers: not checked")
	case len(rising) > 0:
		f.is(Warning, under, "errors occur now: %s", strings.Join(rising, "; "))
	case len(full) > 0:
		dev, port, _ := strings.Cut(name, "/")
		f.is(Warning, "perfquery -C "+dev+" -P "+port+" -R    # sets them to zero; then look again under load",
			"counters are full, so new errors do not show: %s", strings.Join(full, ", "))
	case len(old) > 0:
		f.is(Note, under, "errors since the driver was loaded: %s", strings.Join(old, ", "))
	default:
		f.Text = "no errors since the driver was loaded"
	}
	x.add(f)
}
