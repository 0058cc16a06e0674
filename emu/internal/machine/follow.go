//go:build linux && (amd64 || arm64)

package machine

import (
	"net/netip"
	"os"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/netdev"
)

// Ports follow their interfaces, as mlx5_ib and ib_core do: a port is active while its interface is up, its active MTU
// is what the interface's has room for, and its GIDs are the interface's addresses.

// iface is what is kept of an interface.
type iface struct {
	up    bool
	local bool // it has a link-local address, which it gets again when it comes up
}

// listen follows them from now on, until the socket is closed. Between two wake-ups, fresh brings what a program asks
// for up to date: a kernel's own threads are never late.
func (m *machine) listen(watch *os.File) error {
	c, err := watch.SyscallConn()
	if err != nil {
		return err
	}
	for _, n := range m.fabric.Config.Netdevs() {
		p := m.fabric.Devices[n.Device].Ports[n.Port-1]
		i := &iface{up: true}
		for k := range p.Config.GIDs {
			g := &p.Config.GIDs[k]
			i.local = i.local || g.Netdev == n.Name && g.GID == p.Config.MAC.LinkLocal()
		}
		m.ifaces[n.Name] = i
	}
	m.links.Follow(c)
	m.tree.OnPorts = func() {
		m.fabric.Lock()
		defer m.fabric.Unlock()
		m.fresh()
	}
	go func() {
		_ = c.Read(func(uintptr) bool { // called again whenever there is something to read
			m.tree.OnPorts()
			return false
		})
	}()
	return nil
}

// fresh does what has changed.
func (m *machine) fresh() {
	if m.links == nil {
		return
	}
	for _, c := range m.links.Changes() {
		for _, n := range m.fabric.Config.Netdevs() {
			if d := m.fabric.Devices[n.Device]; n.Name == c.Name && !d.Gone {
				m.changed(&n, d.Ports[n.Port-1], &c)
			}
		}
	}
}

// changed carries out what happened to an interface of a port. A port that is not there any more needs nothing.
func (m *machine) changed(n *config.Netdev, p *hca.Port, c *netdev.Change) {
	switch {
	case c.Addr.IsValid() && c.There:
		m.addGIDs(n, p, c.Addr)
	case c.Addr.IsValid():
		m.dropGIDs(p, func(g *config.GID) bool {
			stays := n.VLAN == 0 && g.GID == p.Config.MAC.LinkLocal() // the default GID
			return g.Netdev == n.Name && g.GID.IP() == c.Addr && !stays
		})
	default:
		up, mtu := c.There && c.Up, c.MTU
		if !c.There {
			m.dropGIDs(p, func(g *config.GID) bool { return g.Netdev == n.Name })
			mtu = p.MTU
		}
		_ = m.tree.SetInterface(n, up, mtu)
		if i := m.ifaces[n.Name]; i.up != up {
			if i.up = up; up && i.local {
				m.links.SetGID(config.GID{GID: p.Config.MAC.LinkLocal(), Netdev: n.Name}, true)
			}
		}
		if n.VLAN == 0 {
			p.SetInterface(up, mtu)
			_ = m.showPort(p)
		}
	}
}

// addGIDs gives a table the entries of a new address, in the first places that are free. C: ib_cache_gid_add.
func (m *machine) addGIDs(n *config.Netdev, p *hca.Port, ip netip.Addr) {
	g := config.GID{GID: ip.As16(), Netdev: n.Name, VLAN: n.VLAN}
	free := []int{}
	for i := range p.Config.GIDTableLen {
		switch v := p.GID(i); {
		case v == nil:
			free = append(free, i)
		case v.GID == g.GID && v.Netdev == g.Netdev:
			return // it is how the address came
		}
	}
	for i, typ := range []config.GIDType{config.GIDTypeRoCEv1, config.GIDTypeRoCEv2} {
		if g.Type = typ; i < len(free) {
			_ = m.putGID(p, free[i], g)
		}
	}
}

// dropGIDs empties the entries that are the ones.
func (m *machine) dropGIDs(p *hca.Port, are func(*config.GID) bool) {
	for i := range p.Config.GIDTableLen {
		if v := p.GID(i); v != nil && are(v) {
			_ = m.putGID(p, i, config.GID{})
		}
	}
}
