// Package adapters chooses the devices of tier hw.
package adapters

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// Driver is the kernel's driver of the adapters.
const Driver = "mlx5_core"

// Choose returns the devices of the two ends, one for both unless two are named, and the kind of their link. It finds
// devices by their driver, because udev gives them other names than the kernel.
func Choose(root sysfs.Root, named string) ([]string, string, error) {
	devs, err := root.Devices()
	if err != nil {
		return nil, "", fmt.Errorf("devices: %w", err)
	}
	link := func(d *sysfs.Device) string {
		for _, p := range d.Ports {
			if p.StateName == sysfs.StateActive {
				return p.LinkLayer
			}
		}
		return ""
	}
	if named == "" {
		for i := range devs {
			if l := link(&devs[i]); devs[i].Driver == Driver && l != "" {
				return []string{devs[i].Name}, l, nil
			}
		}
		return nil, "", fmt.Errorf("no device of %s with an active port in %s; name one with -d", Driver,
			root.ClassDir())
	}
	list := strings.Split(named, ",")
	if len(list) > 2 {
		return nil, "", fmt.Errorf("%d devices; a test has two ends: name one device or two", len(list))
	}
	kind := ""
	for _, n := range list {
		i := slices.IndexFunc(devs, func(d sysfs.Device) bool { return d.Name == n })
		if i < 0 {
			return nil, "", fmt.Errorf("no device %s in %s", n, root.ClassDir())
		}
		l := link(&devs[i])
		if l == "" {
			return nil, "", fmt.Errorf("%s has no active port", n)
		}
		if kind != "" && l != kind {
			return nil, "", fmt.Errorf("%s is %s and the other device %s; a test needs two of a kind", n, l, kind)
		}
		kind = l
	}
	return list, kind, nil
}
