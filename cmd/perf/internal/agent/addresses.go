package agent

import (
	"net"
	"net/netip"
	"slices"
)

// MostAddresses bounds the addresses of one host.
const MostAddresses = 64

// Addresses returns the addresses of this host at which others may reach it, with the networks that they are in: at
// most 64. An interface with many of them, such as that of the services of Kubernetes, takes no other one's place.
// IPv4 is first. A host without a network has its loopback addresses.
func Addresses() ([]netip.Prefix, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var all [][]netip.Prefix
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		var list []netip.Prefix
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				list = append(list, p)
			}
		}
		all = append(all, list)
	}
	return choose(all), nil
}

// choose chooses among the addresses of interfaces: the first of each, then the second of each, and so on.
func choose(interfaces [][]netip.Prefix) (list []netip.Prefix) {
	usable := func(p netip.Prefix) bool {
		a := p.Addr()
		return a.IsValid() && !a.IsLinkLocalUnicast() && !a.IsMulticast() && !a.IsLoopback()
	}
	local := func(p netip.Prefix) bool { return p.Addr().IsLoopback() }
	for _, wanted := range []func(netip.Prefix) bool{usable, local} {
		for i, some := 0, true; some && len(list) < MostAddresses; i++ {
			some = false
			for _, addrs := range interfaces {
				addrs = slices.DeleteFunc(slices.Clone(addrs), func(p netip.Prefix) bool { return !wanted(p) })
				if some = some || i < len(addrs); i < len(addrs) && len(list) < MostAddresses {
					list = append(list, addrs[i])
				}
			}
		}
		if len(list) > 0 {
			break
		}
	}
	slices.SortStableFunc(list, func(a, b netip.Prefix) int { return a.Addr().BitLen() - b.Addr().BitLen() })
	return list
}
