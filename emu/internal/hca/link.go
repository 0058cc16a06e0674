//go:build linux

package hca

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// PortEngine is what an engine learns of ports.
type PortEngine interface{ PortChanged(*Port) }

func (p *Port) engine() PortEngine { return p.Device.Fabric.engine.(PortEngine) }

// broadcast tells all contexts of the device.
func (d *Device) broadcast(t EventType, element uint64) {
	for _, c := range d.Contexts {
		c.AsyncEvent(t, element)
	}
}

// SetLink pulls a port's cable, or plugs it in.
func (p *Port) SetLink(up bool) {
	p.Linked = up
	p.changed()
}

// SetInterface follows a port's interface, which was taken up or down, or got another MTU. C: mlx5_netdev_event,
// mlx5_query_port_roce.
func (p *Port) SetInterface(up bool, mtu int) {
	p.Up = up
	if p.MTU != mtu { // nobody is told
		p.MTU, p.Config.ActiveMTU = mtu, p.Config.MTUOf(mtu)
		p.engine().PortChanged(p)
	}
	p.changed()
}

// changed tells the programs that a port went down or up, if it did.
func (p *Port) changed() {
	active := p.Linked && p.Up
	if p.Active == active {
		return
	}
	p.Active = active
	p.Config.State = config.PortDown
	t := EventPortErr
	if active {
		p.Config.State, t = config.PortActive, EventPortActive
	}
	p.engine().PortChanged(p)
	p.Device.broadcast(t, uint64(p.Number))
}

// SetGID changes an entry of a port's table; a zero GID empties it.
func (d *Device) SetGID(n, index int, g config.GID) unix.Errno {
	p := d.port(uint8(n))
	if p == nil || index < 0 || index >= p.Config.GIDTableLen {
		return unix.EINVAL
	}
	for len(p.Config.GIDs) <= index {
		p.Config.GIDs = append(p.Config.GIDs, config.GID{})
	}
	p.Config.GIDs[index] = g
	p.engine().PortChanged(p)
	d.broadcast(EventGIDChange, uint64(n))
	return 0
}

// Remove takes the device away: commands answer EIO from now on, and nothing is executed any more.
func (d *Device) Remove() {
	if d.Gone {
		return
	}
	d.Gone = true
	for _, p := range d.Ports {
		p.Active = false
		p.engine().PortChanged(p)
	}
	d.broadcast(EventDeviceFatal, 0)
	// The kernel's channels give EIO from then on; a pipe can only end.
	for _, c := range d.Contexts {
		c.hangUp()
	}
}
