package sockaddr

import (
	"context"
	"net"
	"net/netip"
)

// LookUp returns the addresses of a host, of both families ("ip") or of one ("ip4", "ip6"). Those of link-local scope
// have their zone, which Go's LookupNetIP drops.
func LookUp(ctx context.Context, network, host string) ([]netip.Addr, error) {
	list, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, ip := range list {
		a, _ := netip.AddrFromSlice(ip.IP)
		if a = a.Unmap(); a.Is6() {
			a = a.WithZone(ip.Zone)
		}
		if network == "ip" || a.Is4() == (network == "ip4") {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no address of " + network, Name: host, IsNotFound: true}
	}
	return addrs, nil
}
