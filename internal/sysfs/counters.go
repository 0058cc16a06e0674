package sysfs

import (
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The directories of a port's counters.
const (
	PortCounters     = "counters"    // those of InfiniBand
	HardwareCounters = "hw_counters" // the driver's own
)

// Counters returns the counters of a port by name, those of the port and those of the hardware. Values that cannot be
// read are left out: not every driver has each of them.
func (r Root) Counters(dev string, port uint8) map[string]uint64 {
	all, _ := r.CountersIn(dev, port, PortCounters)
	hardware, _ := r.CountersIn(dev, port, HardwareCounters)
	maps.Copy(all, hardware)
	return all
}

// CountersIn returns the counters of one directory. unread has those that cannot be read, but not those that the driver
// does not have.
func (r Root) CountersIn(dev string, port uint8, dir string) (all map[string]uint64, unread []*fs.PathError) {
	all = map[string]uint64{}
	if !validName(dev) {
		return all, []*fs.PathError{badName("device", dev)}
	}
	d, err := openDir(r.path("class", "infiniband", dev, "ports", strconv.Itoa(int(port)), dir))
	if err != nil {
		return all, unreadDir(err)
	}
	defer d.close()
	d.unread = &unread
	names, err := d.names()
	d.note(err)
	slices.Sort(names)
	for _, name := range names {
		if name == "lifespan" { // how long the kernel keeps the values
			continue
		}
		text, known := d.known(name)
		if v, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64); err == nil {
			all[name] = v
		} else if known && !strings.HasPrefix(text, "N/A") { // the port has no such counter
			d.malformed(name, text, "a number that is not negative")
		}
	}
	return all, unread
}
