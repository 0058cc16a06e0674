package plan

import (
	"cmp"
	"net/netip"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// ByCM reports whether the ends meet by rdma_cm, and not by TCP.
func (p *Plan) ByCM() bool { return p.Peer.RDMACM || p.Peer.CMExchange }

// checkAddress checks where the ends connect, and the family of their addresses.
func (p *Plan) checkAddress() []error {
	cm, raw := p.Peer.CMExchange, p.Transport == wire.RawEth
	errs := []error{
		cmp.Or(wrong(cm && raw, "exchange by rdma_cm (-z): the ends of raw Ethernet (-c RawEth) do not connect"),
			wrong(cm && p.Peer.ListenFD != 0,
				"exchange by rdma_cm (-z): an inherited socket (--listen-fd) uses TCP")),
	}
	if p.Link.GIDv6 {
		errs = append(errs, first(
			unfit(p.Link.GIDIndex != Auto, "ipv6", "give a GID index (-x) or --ipv6, not both"),
			unfit(p.Peer.RDMACM, "ipv6",
				"IPv6 GID (--ipv6): with rdma_cm (-R) the address decides; give the client an IPv6 address"),
			unfit(raw, "ipv6",
				"IPv6 GID (--ipv6): raw Ethernet (-c RawEth) has no GIDs; give IPv6 addresses (-J, -j)"))...)
	}
	if !p.Peer.IPv6 {
		return errs
	}
	errs = append(errs, unfit(raw, "ipv6-addr",
		"IPv6 address (--ipv6-addr): the ends of raw Ethernet (-c RawEth) do not connect"))
	for _, a := range []string{p.Peer.Host, p.Peer.Bind} {
		ip, err := netip.ParseAddr(a)
		errs = append(errs, unfit(err == nil && ip.Unmap().Is4(), "ipv6-addr",
			"IPv6 address (--ipv6-addr): %s is an IPv4 address", a))
	}
	return errs
}

// checkPayload refuses a payload from a file for tests that cannot have one.
func (p *Plan) checkPayload() []error {
	return first(
		unfit(p.Payload != nil && p.Verb == wire.Atomic, "payload-file-path",
			"payload (--payload-file-path): an atomic has no payload"),
		unfit(p.Payload != nil && p.Memory.Null, "payload-file-path",
			"payload (--payload-file-path): a null MR (--use-null-mr) has no payload"))
}
