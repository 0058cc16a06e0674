package plan

import (
	"net/netip"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// ByCM reports whether the ends meet by rdma_cm, and not by TCP.
func (p *Plan) ByCM() bool { return p.Peer.RDMACM || p.Peer.CMExchange }

// checkAddress checks where the ends connect, and the family of their addresses.
func (p *Plan) checkAddress(c *complaints) {
	switch {
	case !p.Peer.CMExchange:
	case p.Transport == wire.RawEth:
		c.add("exchange by rdma_cm (-z): the ends of raw Ethernet (-c RawEth) do not connect")
	case p.Peer.ListenFD != 0:
		c.add("exchange by rdma_cm (-z): an inherited socket (--listen-fd) uses TCP")
	}
	switch {
	case !p.Link.GIDv6:
	case p.Link.GIDIndex != Auto:
		c.unfit("ipv6", "give a GID index (-x) or --ipv6, not both")
	case p.Peer.RDMACM:
		c.unfit("ipv6", "IPv6 GID (--ipv6): with rdma_cm (-R) the address decides; give the client an IPv6 address")
	case p.Transport == wire.RawEth:
		c.unfit("ipv6", "IPv6 GID (--ipv6): raw Ethernet (-c RawEth) has no GIDs; give IPv6 addresses (-J, -j)")
	}
	if !p.Peer.IPv6 {
		return
	}
	if p.Transport == wire.RawEth {
		c.unfit("ipv6-addr", "IPv6 address (--ipv6-addr): the ends of raw Ethernet (-c RawEth) do not connect")
	}
	for _, a := range []string{p.Peer.Host, p.Peer.Bind} {
		if ip, err := netip.ParseAddr(a); err == nil && ip.Unmap().Is4() {
			c.unfit("ipv6-addr", "IPv6 address (--ipv6-addr): %s is an IPv4 address", a)
		}
	}
}

// checkPayload refuses a payload from a file for tests that cannot have one.
func (p *Plan) checkPayload(c *complaints) {
	switch {
	case p.Payload == nil:
	case p.Verb == wire.Atomic:
		c.unfit("payload-file-path", "payload (--payload-file-path): an atomic has no payload")
	case p.Memory.Null:
		c.unfit("payload-file-path", "payload (--payload-file-path): a null MR (--use-null-mr) has no payload")
	}
}
