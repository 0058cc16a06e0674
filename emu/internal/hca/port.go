//go:build linux

package hca

import "github.com/pureverbs/pureverbs/emu/internal/config"

// Port is one port of a device. Number counts from 1.
type Port struct {
	Device *Device
	Number int
	Config *config.Port
	Active bool // it is linked, and its interface is up
	Linked bool // there is a cable with a partner
	Up     bool // so is its interface; always, without one
	MTU    int  // of its interface, in bytes
	Count  [Counters]uint64
}

func (p *Port) roce() bool { return p.Config.LinkLayer == config.Ethernet }

// PortByGID returns the port that has a GID, and the GID's index, or nil.
func (f *Fabric) PortByGID(gid *[16]byte) (*Port, int) {
	for _, d := range f.Devices {
		if d.Gone {
			continue
		}
		for _, p := range d.Ports {
			for i := range p.Config.GIDs {
				if p.Config.GIDs[i].GID == *gid {
					return p, i
				}
			}
		}
	}
	return nil, -1
}

// PortByLID returns the InfiniBand port that has a LID, or nil.
func (f *Fabric) PortByLID(lid uint16) *Port {
	for _, d := range f.Devices {
		for _, p := range d.Ports {
			if c := p.Config; c.LID != 0 && lid&^(1<<c.LMC-1) == c.LID && !d.Gone {
				return p
			}
		}
	}
	return nil
}

// GID returns entry i of the port's table, or nil.
func (p *Port) GID(i int) *config.GID {
	if i < 0 || i >= len(p.Config.GIDs) || p.Config.GIDs[i].GID == (config.Addr{}) {
		return nil
	}
	return &p.Config.GIDs[i]
}

// PKey returns entry i of the port's table, or 0.
func (p *Port) PKey(i int) uint16 {
	if i < 0 || i >= len(p.Config.PKeys) {
		return 0
	}
	return p.Config.PKeys[i]
}
