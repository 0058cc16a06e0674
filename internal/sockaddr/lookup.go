package sockaddr

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// Resolve returns the addresses of host:port, whose port may be the name of a service of a network, "tcp" or "udp". An
// address without a host is an *Error.
func Resolve(ctx context.Context, network, addr string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		return nil, &Error{Arg: "address", Got: fmt.Sprintf("%q, without a host", addr), Want: "host:port"}
	}
	ips, err := LookUp(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	list := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		list[i] = netip.AddrPortFrom(ip, uint16(port))
	}
	return list, nil
}

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
