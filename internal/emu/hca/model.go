//go:build linux

package hca

import (
	"github.com/pureverbs/pureverbs/internal/emu/config"
)

// New makes the devices of c, all ports as the configuration has them.
func New(c *config.Config) *Fabric {
	f := &Fabric{Config: c, xrcds: map[xrcdKey]*XRCD{}}
	for i := range c.Devices {
		d := &Device{Fabric: f, Config: &c.Devices[i], Index: i, Contexts: map[int]*Context{},
			groups: map[[16]byte][]*QP{}}
		for n := range d.Config.Ports {
			p := &d.Config.Ports[n]
			d.Ports = append(d.Ports, &Port{Device: d, Number: n + 1, Config: p, Active: p.State == config.PortActive})
		}
		// Number 0 of each kind stands for nothing.
		d.keys, d.cqs, d.srqs, d.pds = make([]*MKey, firstKey), make([]*CQ, 1), make([]*SRQ, 1), 1
		d.keys[NullKey>>8] = &MKey{Kind: KeyNull, Key: NullKey}
		f.Devices = append(f.Devices, d)
	}
	return f
}

// place puts v into the first free place from *next on, so that a number is not used again at once, or appends it while
// the table is shorter than most.
func place[T any](table *[]*T, next *int, first, most int, v *T) (int, bool) {
	if len(*table) < first {
		*table = append(*table, make([]*T, first-len(*table))...)
	}
	// Grow before reusing: only a table that is large looks for holes.
	if len(*table) < min(most, first+1024) || len(*table) < most && *next >= len(*table) {
		*table = append(*table, v)
		*next = len(*table)
		if *next >= most {
			*next = first
		}
		return len(*table) - 1, true
	}
	for range 2 {
		for i := max(*next, first); i < len(*table); i++ {
			if (*table)[i] == nil {
				(*table)[i] = v
				*next = i + 1
				return i, true
			}
		}
		*next = first
	}
	if len(*table) < most {
		*table = append(*table, v)
		return len(*table) - 1, true
	}
	return 0, false
}

func at[T any](table []*T, i uint32) *T {
	if i < uint32(len(table)) {
		return table[i]
	}
	return nil
}

// QP returns the QP with a number, or nil.
func (d *Device) QP(num uint32) *QP { return at(d.qps, num-FirstQPN) }

// CQ returns the CQ with a number, or nil.
func (d *Device) CQ(num uint32) *CQ { return at(d.cqs, num) }

// SRQ returns the SRQ with a number, or nil.
func (d *Device) SRQ(num uint32) *SRQ { return at(d.srqs, num) }

// Key returns the memory key with this number, its low byte included, or nil.
func (d *Device) Key(key uint32) *MKey {
	if k := at(d.keys, key>>8); k != nil && k.Key == key {
		return k
	}
	return nil
}

// Group returns the QPs of a multicast group.
func (d *Device) Group(gid [16]byte) []*QP { return d.groups[gid] }

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

// port returns the port with a number, or nil.
func (d *Device) port(n uint8) *Port {
	if n < 1 || int(n) > len(d.Ports) {
		return nil
	}
	return d.Ports[n-1]
}

// Resolve turns an address on the wire into one of the program's memory, if the key allows n bytes there and has all
// rights of need.
func (k *MKey) Resolve(addr, n uint64, need Access) (va uint64, ok bool) {
	off := addr - k.Base
	if k.Free || k.Access&need != need || addr < k.Base || off > k.Len || n > k.Len-off {
		return 0, false
	}
	return k.Addr + off, true
}
