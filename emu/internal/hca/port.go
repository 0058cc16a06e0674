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

func (p *Port) needsGRH() bool { return p.roce() || p.Config.NeedsGRH }

// Reaches reports whether a packet arrives that has no GRH: ports that require one are found by their GIDs.
func (p *Port) Reaches(to *Port, grh bool) bool { return grh || !p.needsGRH() && !to.needsGRH() }

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
