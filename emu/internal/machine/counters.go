//go:build linux && (amd64 || arm64)

package machine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// counters brings what sysfs shows of a port up to date.
func (m *machine) counters(device, port int) {
	m.fabric.Lock()
	count := m.fabric.Devices[device].Ports[port-1].Count
	m.fabric.Unlock()
	for i, names := range hca.CounterNames {
		for _, n := range names {
			_ = m.tree.SetCounter(device, port, n, count[i]) // of a device that was removed there is nothing to show
		}
	}
}
