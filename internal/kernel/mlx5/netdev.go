package mlx5

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// netdevIndex returns the number of a netdev, 0 if it has none.
func netdevIndex(root sysfs.Root, dev string) uint32 {
	n, _ := root.Number("class", "net", dev, "ifindex")
	return uint32(n)
}

// noVLAN is the VLAN of what has none.
const noVLAN = 0xffff

// vlanOf returns the VLAN of a netdev.
func vlanOf(dev string) uint16 {
	b, err := os.ReadFile(filepath.Join("/proc/net/vlan", filepath.Base(dev)))
	if err != nil {
		return noVLAN
	}
	_, rest, _ := strings.Cut(string(b), "VID: ")
	id, _, _ := strings.Cut(rest, "\t")
	if n, err := strconv.ParseUint(strings.TrimSpace(id), 10, 12); err == nil {
		return uint16(n)
	}
	return noVLAN
}
