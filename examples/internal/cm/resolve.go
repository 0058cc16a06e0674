package cm

import (
	"context"
	"net"
	"net/netip"
)

// Resolve looks up a name, or reads an address, and a port. An empty host is any address of this machine.
func Resolve(ctx context.Context, host, port string) (netip.AddrPort, error) {
	ip := netip.IPv4Unspecified()
	if host != "" {
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return netip.AddrPort{}, err
		}
		ip = ips[0].Unmap()
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	return netip.AddrPortFrom(ip, uint16(n)), err
}
