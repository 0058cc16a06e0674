package doctor

import (
	"fmt"
	"net/netip"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// active is a port that carries traffic.
type active struct {
	name string
	dev  *Device
	port hostfacts.Port
	link Link
}

func actives(devs []Device) (out []active) {
	for i := range devs {
		d := &devs[i]
		for k, p := range d.Ports {
			if p.Active() {
				out = append(out, active{fmt.Sprintf("%s/%d", d.Name, p.Number), d, p, d.Links[k]})
			}
		}
	}
	return out
}

// family returns the family of a GID of RoCE, "" if there is none.
func family(address string) string {
	a, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return ""
	case a.Is4():
		return "IPv4"
	}
	return "IPv6"
}

// Compare adds mismatches with the peer's host. Each port is compared with the port there that has its name, or with
// the first one that is active if there is none.
func (r *Report) Compare(p *Peer) {
	there := actives(p.Devices)
	host := p.Hostname
	add := func(s Severity, subject, text, evidence, remedy string) {
		r.add(Finding{Severity: s, Subject: subject, Check: "peer", Text: text, Evidence: evidence, Remedy: remedy})
	}
	if p.Worst >= Warning {
		add(p.Worst, "host", fmt.Sprintf("%s has its own findings", host), "", "rdmaperf doctor    # there")
	}
	if p.Kernel != r.Kernel {
		add(Note, "host", "the kernels differ", r.Kernel+" here, "+p.Kernel+" at "+host, "")
	}
	if p.Program != r.Program {
		add(Note, "host", "the releases of rdmaperf differ", r.Program+" here, "+p.Program+" at "+host, "")
	}
	if len(there) == 0 {
		add(Error, "host", host+" has no ACTIVE port", fmt.Sprintf("%d devices there", len(p.Devices)),
			"rdma link    # there")
		return
	}
	for _, a := range actives(r.Devices) {
		b := there[0]
		for _, o := range there {
			if o.name == a.name {
				b = o
			}
		}
		both := func(x, y any) string {
			return fmt.Sprintf("%v of %s here, %v of %s at %s", x, a.name, y, b.name, host)
		}
		if a.port.LinkLayer != b.port.LinkLayer {
			add(Error, a.name, "the link layers differ: the ports cannot reach each other",
				both(a.port.LinkLayer, b.port.LinkLayer), "rdmaperf ... -d DEVICE    # a device that the peer also has")
			continue
		}
		before := len(r.Findings)
		if a.link.MTU != b.link.MTU && a.link.MTU > 0 && b.link.MTU > 0 {
			small, mtu := a.link.Netdev+"    # here", max(a.link.MTU, b.link.MTU)
			if b.link.MTU < a.link.MTU {
				small = "NETDEV    # at the peer"
			}
			remedy := fmt.Sprintf("ip link set mtu %d dev %s", mtu+headers+8, small)
			add(Warning, a.name, fmt.Sprintf("the active MTUs differ; programs that negotiate use %d, others fail",
				min(a.link.MTU, b.link.MTU)), both(a.link.MTU, b.link.MTU), remedy)
		}
		if a.link.GIDType != b.link.GIDType && a.link.GID != nil && b.link.GID != nil {
			add(Error, a.name, "the best GIDs are of different types: the ends cannot reach each other",
				both(a.link.GIDType, b.link.GIDType), "show_gids --why    # at both ends, then -x INDEX")
		}
		if x, y := family(a.link.Address), family(b.link.Address); x != "" && y != "" && x != y &&
			a.link.GIDType == b.link.GIDType {
			add(Error, a.name, "the best GIDs are of different address families: a test refuses them",
				both(a.link.Address, b.link.Address), "rdmaperf ... --ipv6   # at both ends, or -x INDEX of one family")
		}
		if b.link.GID == nil {
			add(Error, a.name, "the peer's port has no GID that can be used", b.name+" at "+host,
				"show_gids --why    # there")
		}
		if a.port.RateBits != b.port.RateBits {
			add(Note, a.name, "the rates differ", both(a.port.Rate, b.port.Rate), "")
		}
		if a.dev.PCI.ID == b.dev.PCI.ID && a.dev.BoardID == b.dev.BoardID &&
			a.dev.FirmwareVersion != b.dev.FirmwareVersion {
			add(Note, a.name, "the firmware differs", both(a.dev.FirmwareVersion, b.dev.FirmwareVersion),
				"mlxfwmanager --query")
		}
		for _, key := range []string{"trust", "pfc", "dscp_priority", "traffic_class"} {
			if x, y := a.link.Lossless[key], b.link.Lossless[key]; x != "" && y != "" && x != y {
				add(Warning, a.name, key+" differs: congestion is not handled alike", both(x, y),
					"mlnx_qos    # at both ends")
			}
		}
		if len(r.Findings) == before {
			add(OK, a.name, "matches "+b.name+" at "+host, both(a.link.MTU, b.link.MTU), "")
		}
	}
}
