package sysfs

import (
	"strconv"
	"strings"
)

// Counters returns the counters of a port by name, those of the port and those of the hardware. Values that cannot be
// read are left out: not every driver has each of them.
func (r Root) Counters(dev string, port uint8) map[string]uint64 {
	all := map[string]uint64{}
	if !validName(dev) {
		return all
	}
	for _, sub := range []string{"counters", "hw_counters"} {
		d, err := openDir(r.path("class", "infiniband", dev, "ports", strconv.Itoa(int(port)), sub))
		if err != nil {
			continue
		}
		names, _ := d.names()
		for _, name := range names {
			if name == "lifespan" { // how long the kernel keeps the values
				continue
			}
			if v, err := strconv.ParseUint(strings.TrimSpace(d.text(name)), 10, 64); err == nil {
				all[name] = v
			}
		}
		d.close()
	}
	return all
}
