//go:build linux

package hca

import "github.com/pureverbs/pureverbs/emu/internal/config"

// Device is one emulated adapter.
type Device struct {
	Fabric   *Fabric
	Config   *config.Device
	Index    int // N of uverbsN
	Ports    []*Port
	Contexts map[int]*Context
	Gone     bool // removed: commands answer EIO
	Paged    PageCounts
	Blocks   int    // of compressed completions that were written
	dmUsed   uint64 // bytes of device memory that are allocated

	qps    []*QP   // by QPN - FirstQPN
	keys   []*MKey // by key >> 8
	cqs    []*CQ   // by CQN
	srqs   []*SRQ  // by SRQN
	groups map[[16]byte][]*QP
	flows  []*Flow // in the order in which they are looked at

	dealt      int             // QPs that were given a port of the bond
	devxNumber uint32          // the last of NextNumber
	psvs       map[uint32]*PD  // by number
	reserved   map[uint32]bool // ranges of QPNs, by the first
	paces      [MaxPaces]*paceEntry
	vars       [maxVARs]bool // those in use

	nextQP, nextKey, nextCQ, nextSRQ, pds                 int   // where to look for a free number
	variant                                               uint8 // low byte of the next key
	liveWQs, liveTables                                   int
	nextTable                                             uint32
	liveQPs, liveCQs, liveSRQs, liveMRs, liveMWs, livePDs int
}

// Recent reports whether the adapter is a ConnectX-6 Dx or later.
func (d *Device) Recent() bool { return d.Config.Model.PCI >= 0x101d }

// New makes the devices of c, all ports as the configuration has them.
func New(c *config.Config) *Fabric {
	f := &Fabric{Config: c, xrcds: map[xrcdKey]*XRCD{}}
	for i := range c.Devices {
		d := &Device{Fabric: f, Config: &c.Devices[i], Index: i, Contexts: map[int]*Context{},
			groups: map[[16]byte][]*QP{}}
		for n := range d.Config.Ports {
			p := &d.Config.Ports[n]
			active := p.State == config.PortActive
			d.Ports = append(d.Ports, &Port{Device: d, Number: n + 1, Config: p, Active: active, Linked: active,
				Up: true, MTU: p.NetdevMTU()})
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

// port returns the port with a number, or nil.
func (d *Device) port(n uint8) *Port {
	if n < 1 || int(n) > len(d.Ports) {
		return nil
	}
	return d.Ports[n-1]
}
