//go:build linux

package hca

import "github.com/pureverbs/pureverbs/emu/internal/config"

// New makes the devices of c, all ports as the configuration has them.
func New(c *config.Config) *Fabric {
	f := &Fabric{Config: c}
	for i := range c.Devices {
		d := &Device{Fabric: f, Config: &c.Devices[i], Index: i, Contexts: map[int]*Context{}}
		for n := range d.Config.Ports {
			p := &d.Config.Ports[n]
			active := p.State == config.PortActive
			d.Ports = append(d.Ports, &Port{Device: d, Number: n + 1, Config: p, Active: active, Linked: active,
				Up: true, MTU: p.NetdevMTU()})
		}
		d.keys().places = make([]*MKey, firstKey)
		d.keys().places[NullKey>>8] = &MKey{Kind: KeyNull, Key: NullKey}
		f.Devices, f.Ports = append(f.Devices, d), append(f.Ports, d.Ports...)
	}
	return f
}

// Engine executes work requests. The device model calls it, lock held, for each change that matters to it.
type Engine interface {
	UAREngine
	QPEngine
	CQEngine
	SRQEngine
	KeyEngine
	PortEngine
}

// SetEngine has e execute the work requests.
func (f *Fabric) SetEngine(e Engine) { f.engine = e }
