package doctor

import (
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// roceUDP is the UDP port of RoCE v2.
const roceUDP = "4791"

// firewall gives a hint about the packet filter: the kernel's does not see what an adapter receives, but it sees
// SoftRoCE's packets, and a filter in the network sees all.
func (x *examination) firewall() {
	ethernet, software := false, false
	for _, d := range x.Devices {
		for _, p := range d.Ports {
			if p.LinkLayer == hostfacts.Ethernet && d.NodeType != hostfacts.NodeRNIC {
				ethernet = true
				software = software || d.PCIAddress == ""
			}
		}
	}
	if !ethernet {
		return
	}
	rules, from, err := x.Rules()
	f := Finding{Subject: "host", Check: "firewall"}
	if err != nil {
		f.Severity, f.Text = Note, "the packet filter cannot be read; RoCE v2 is UDP port "+roceUDP
		f.Evidence, f.Remedy = err.Error(), "sudo nft list ruleset | grep -n -e drop -e reject -e "+roceUDP
		x.add(f)
		return
	}
	drops, accepts, line := filter(rules)
	f.Evidence = from
	if line != "" {
		f.Evidence += ": " + line
	}
	switch {
	case !drops || accepts:
		f.Text = "no rule of this machine drops UDP port " + roceUDP
	default:
		f.Severity, f.Text = Note, "rules drop incoming packets; those of an adapter do not pass them"
		if software {
			f.Severity, f.Text = Warning, "rules drop incoming packets, and with them SoftRoCE's (UDP port "+roceUDP+")"
		}
		f.Remedy = "nft insert rule inet filter input udp dport " + roceUDP + " accept    # name your table and chain"
	}
	x.add(f)
}

// filter reports whether rules, as of nft list ruleset or iptables-save, drop incoming packets, whether they accept
// those of RoCE before, and the line that does.
func filter(rules string) (drops, accepts bool, line string) {
	for l := range strings.Lines(rules) {
		l = strings.TrimSpace(l)
		about := slices.Contains(strings.Fields(l), roceUDP)
		input := strings.Contains(l, "hook input") && strings.Contains(l, "policy drop") ||
			strings.HasPrefix(l, ":INPUT DROP")
		refuses := strings.Contains(l, "drop") || strings.Contains(l, "DROP") || strings.Contains(l, "reject") ||
			strings.Contains(l, "REJECT")
		switch {
		case about && refuses:
			return true, false, l
		case about && (strings.Contains(l, "accept") || strings.Contains(l, "ACCEPT")):
			accepts, line = true, l
		case input:
			drops = true
			if !accepts {
				line = l
			}
		}
	}
	return drops, accepts, line
}
