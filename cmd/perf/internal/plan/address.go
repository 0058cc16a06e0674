package plan

import (
	"net/netip"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// ByCM reports whether the ends meet by rdma_cm, and not by TCP.
func (p *Plan) ByCM() bool { return p.RDMACM || p.CMExchange }

// checkAddress looks at where the ends meet, and at the family of their addresses.
func (p *Plan) checkAddress(c *complaints) {
	switch {
	case !p.CMExchange:
	case p.Transport == wire.RawEth:
		c.add("exchange by rdma_cm (-z): the ends of raw Ethernet (-c RawEth) do not meet")
	case p.ListenFD != 0:
		c.add("exchange by rdma_cm (-z): the socket that was handed over is one of TCP")
	}
	switch {
	case !p.GIDv6:
	case p.GIDIndex != Auto:
		c.add("give a GID by its index (-x) or one of IPv6 (--ipv6), not both")
	case p.RDMACM:
		c.add("GID of IPv6 (--ipv6): with rdma_cm (-R) the address decides; give one of IPv6 to the client")
	case p.Transport == wire.RawEth:
		c.add("GID of IPv6 (--ipv6): frames (-c RawEth) have no GIDs; give addresses of IPv6 by -J and -j")
	}
	if !p.IPv6 {
		return
	}
	if p.Transport == wire.RawEth {
		c.add("address of IPv6 (--ipv6-addr): the ends of raw Ethernet (-c RawEth) do not meet")
	}
	for _, a := range []string{p.Host, p.Bind} {
		if ip, err := netip.ParseAddr(a); err == nil && ip.Unmap().Is4() {
			c.add("address of IPv6 (--ipv6-addr): %s is one of IPv4", a)
		}
	}
}

// checkPayload looks at what does not take a payload from a file.
func (p *Plan) checkPayload(c *complaints) {
	switch {
	case p.Payload == nil:
	case p.Verb == wire.Atomic:
		c.add("payload (--payload-file-path): an atomic carries none")
	case p.Memory.Null:
		c.add("payload (--payload-file-path): a null MR (--use-null-mr) holds none")
	}
}
