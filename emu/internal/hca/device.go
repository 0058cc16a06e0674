//go:build linux

package hca

import "github.com/pureverbs/pureverbs/emu/internal/config"

// Device is one emulated adapter. It keeps numbers: see [Device.QP] and its like, in the file of each kind.
type Device struct {
	Fabric   *Fabric
	Config   *config.Device
	Index    int // N of uverbsN
	Ports    []*Port
	Contexts map[int]*Context
	Gone     bool // removed: commands answer EIO
	Paged    PageCounts
	Blocks   int // of compressed completions that were written

	serial uint32 // the last of NextNumber
	parts  parts
}

// PageCounts is what a device, and each region, counts of on-demand paging, in pages.
type PageCounts struct {
	Faults        uint64 `json:"page_faults"`
	Invalidations uint64 `json:"page_invalidations"`
	Prefetched    uint64 `json:"page_prefetch"`
}

// Recent reports whether the adapter is a ConnectX-6 Dx or later.
func (d *Device) Recent() bool { return d.Config.Model.PCI >= 0x101d }

// NextNumber returns a number for an object that has nothing but a number.
func (d *Device) NextNumber() uint32 {
	d.serial++
	return d.serial & 0xffffff
}

// port returns the port with a number, or nil.
func (d *Device) port(n uint8) *Port {
	if n < 1 || int(n) > len(d.Ports) {
		return nil
	}
	return d.Ports[n-1]
}

// ethernet reports whether a device can have raw packet QPs.
func (d *Device) ethernet() bool {
	for _, p := range d.Ports {
		if p.roce() {
			return true
		}
	}
	return false
}
