//go:build linux

package sysfs

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// SetPortState shows that a link went up or down; port counts from 1.
func (t *Tree) SetPortState(device, port int, state config.PortState, phys config.PhysState) error {
	return t.update(device, port, func(dir string) {
		t.files(dir, "state", stateText(state), "phys_state", physText(phys))
		for _, n := range t.netdevs {
			if n.Device != device || n.Port != port || n.Real {
				continue
			}
			t.files(t.netdevDir(&n), "operstate", operstate(state), "carrier", carrier(state))
		}
	})
}

// netdevDir is the folder of an emulated interface.
func (t *Tree) netdevDir(n *config.Netdev) string {
	if n.VLAN != 0 {
		return "/sys/devices/virtual/net/" + n.Name
	}
	return t.devices[n.Device] + "/net/" + n.Name
}

// SetInterface shows that an interface was taken up or down, or got another MTU.
func (t *Tree) SetInterface(n *config.Netdev, up bool, mtu int) error {
	return t.update(n.Device, n.Port, func(string) {
		if !n.Real {
			t.files(t.netdevDir(n), "mtu", strconv.Itoa(mtu), "flags", flags(up))
		}
	})
}

// SetGID shows that an entry of a GID table changed; a zero GID empties it.
func (t *Tree) SetGID(device, port, index int, g config.GID) error {
	return t.update(device, port, func(dir string) {
		if limit := t.config.Devices[device].Ports[port-1].GIDTableLen; index < 0 || index >= limit {
			t.fail(fmt.Errorf("gid %d: the table has %d entries", index, limit))
			return
		}
		t.gid(dir, index, g)
	})
}

// SetCounter writes a counter by the name of its file; those of the driver and those of the port share one space.
func (t *Tree) SetCounter(device, port int, name string, value uint64) error {
	return t.update(device, port, func(dir string) {
		switch {
		case slices.Contains(counters, name):
			dir += "/counters/"
		case slices.Contains(hwCounters, name):
			dir += "/hw_counters/"
		default:
			t.fail(fmt.Errorf("mlx5 has no counter %q", name))
			return
		}
		if t.last[dir+name] != value {
			t.last[dir+name] = value
			t.file(dir+name, strconv.FormatUint(value, 10))
		}
	})
}

// Remove shows that a device is gone.
func (t *Tree) Remove(device int) error {
	return t.update(device, 1, func(string) {
		t.gone[device] = true
		t.dropNode("infiniband_verbs", "uverbs"+strconv.Itoa(device), UverbsMinor+device)
		t.remove("/sys/class/infiniband/" + t.config.Devices[device].Name)
		t.remove(t.devices[device] + "/infiniband")
		t.remove(t.devices[device] + "/infiniband_verbs")
		t.removeUmads(device)
		for _, n := range t.netdevs {
			if n.Device != device || n.Real {
				continue
			}
			t.remove("/sys/class/net/" + n.Name)
			if n.VLAN != 0 {
				t.remove("/sys/devices/virtual/net/" + n.Name)
			}
		}
		t.remove(t.devices[device] + "/net")
	})
}

// update runs a change of a port's folder under the lock; a device that is gone has nothing to change.
func (t *Tree) update(device, port int, change func(dir string)) error {
	if device < 0 || device >= len(t.devices) || port < 1 || port > len(t.config.Devices[device].Ports) {
		return fmt.Errorf("there is no port %d of device %d", port, device)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone[device] {
		return nil
	}
	t.err = nil
	change(fmt.Sprintf("%s/infiniband/%s/ports/%d", t.devices[device], t.config.Devices[device].Name, port))
	return t.err
}
