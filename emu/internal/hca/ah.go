//go:build linux

package hca

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// AH is an address handle.
type AH struct {
	Held
	Attr AHAttr
}

type ahs struct{ live int }

var ahPart = newPart[ahs]()

func (d *Device) ahs() *ahs { return ahPart.of(&d.parts) }

// CreateAH makes an address handle and fills in the peer's MAC address on Ethernet.
func CreateAH(c *Context, pd uint32, attr *AHAttr) (*AH, unix.Errno) {
	p, e := Find[*PD](c, pd)
	if e != 0 {
		return nil, e
	}
	all := c.Device.ahs()
	if all.live >= c.Device.Config.Limits.MaxAH {
		return nil, unix.ENOMEM
	}
	a := *attr
	if e := c.Device.checkAH(&a); e != 0 {
		return nil, e
	}
	if e := c.Device.resolve(&a); e != 0 {
		return nil, e
	}
	if !isRate(a.StaticRate) {
		return nil, unix.EINVAL
	}
	all.live++
	ah := &AH{Held: c.held(rankOfRule, "AH"), Attr: a}
	ah.Use(p)
	ah.life.end = func() { all.live-- }
	return added(c, ah)
}

// checkAH checks an address as the kernel does. C: rdma_check_ah_attr, rdma_fill_sgid_attr.
func (d *Device) checkAH(a *AHAttr) unix.Errno {
	p := d.port(a.Port)
	switch {
	case p == nil, p.needsGRH() && !a.Global:
		return unix.EINVAL
	case !a.Global:
		return 0
	case int(a.SGIDIndex) >= p.Config.GIDTableLen:
		return unix.EINVAL
	case p.GID(int(a.SGIDIndex)) == nil:
		return unix.ENODATA
	}
	return 0
}

// resolve finds the MAC address that a checked address leads to. C: ib_resolve_eth_dmac.
func (d *Device) resolve(a *AHAttr) unix.Errno {
	p := d.port(a.Port)
	if !p.roce() {
		return 0
	}
	from, to, gid := p.GID(int(a.SGIDIndex)), config.Addr(a.DGID).IP(), &a.DGID
	switch {
	case gid[0] == 0xff:
		a.DMAC = [6]byte{0x33, 0x33, gid[12], gid[13], gid[14], gid[15]}
		return 0
	case to.IsMulticast():
		a.DMAC = [6]byte{0x01, 0x00, 0x5e, gid[13] & 0x7f, gid[14], gid[15]}
		return 0
	case to.IsLinkLocalUnicast() && to.Is6() && from.Type == config.GIDTypeRoCEv1: // by the address itself
		a.DMAC = [6]byte{gid[8] ^ 2, gid[9], gid[10], gid[13], gid[14], gid[15]}
		return 0
	case to.Is4() != from.GID.IP().Is4():
		return unix.EINVAL
	}
	if peer := d.Fabric.PortByGID(gid); peer != nil {
		a.DMAC, a.HopLimit = peer.Config.MAC, routeHops
		return 0
	}
	switch {
	case to.Is4() && to.IsUnspecified():
		return unix.ENODEV
	case to.Is6() && !p.onLink(from.Netdev, to):
		return unix.ENETUNREACH
	}
	// To IPv4 without a route, an address of the interface's own link is assumed.
	return unix.ETIMEDOUT
}

// routeHops is the hop limit of a route, which takes the place of the program's. C: ip4_dst_hoplimit.
const routeHops = 64

// onLink reports whether an interface of the port has a route to an IPv6 address: there is no gateway.
func (p *Port) onLink(netdev string, to netip.Addr) bool {
	if to.IsLinkLocalUnicast() {
		return true
	}
	for i := range p.Config.GIDs {
		g := &p.Config.GIDs[i]
		if ip := g.GID.IP(); g.Netdev == netdev && ip.Is6() && netip.PrefixFrom(ip, 64).Contains(to) {
			return true
		}
	}
	return false
}
