package adapters

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// tree writes the devices of a host. Each is NAME DRIVER STATE LINK.
func tree(t *testing.T, devices ...string) sysfs.Root {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range devices {
		f := strings.Fields(d)
		dir := "class/infiniband/" + f[0] + "/"
		write("bus/pci/drivers/"+f[1]+"/bind", "")
		write(dir+"device/vendor", "0x15b3")
		if err := os.Symlink(filepath.Join(root, "bus/pci/drivers", f[1]),
			filepath.Join(root, dir, "device/driver")); err != nil {
			t.Fatal(err)
		}
		write(dir+"ports/1/state", strings.ReplaceAll(f[2], "_", " "))
		write(dir+"ports/1/link_layer", f[3])
	}
	return sysfs.Root(root)
}

// TestChoose finds adapters by their driver: udev names them after their place, and other devices may be called mlx5_0.
func TestChoose(t *testing.T) {
	host := tree(t, "irdma0 irdma 4:_ACTIVE Ethernet", "rocep1s0f0 mlx5_core 1:_DOWN Ethernet",
		"rocep1s0f1 mlx5_core 4:_ACTIVE Ethernet", "ibp2s0 mlx5_core 4:_ACTIVE InfiniBand")
	for _, tc := range []struct{ named, want, link, err string }{
		{"", "ibp2s0", "InfiniBand", ""}, // the first by name
		{"rocep1s0f1", "rocep1s0f1", "Ethernet", ""},
		{"rocep1s0f1,rocep1s0f1", "rocep1s0f1,rocep1s0f1", "Ethernet", ""},
		{"rocep1s0f0", "", "", "no active port"},
		{"rocep1s0f1,ibp2s0", "", "", "two of a kind"},
		{"mlx5_0", "", "", "no device mlx5_0"},
		{"a,b,c", "", "", "two ends"},
	} {
		list, link, err := Choose(host, tc.named)
		if have := strings.Join(list, ","); have != tc.want || link != tc.link ||
			(err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: %s %s %v, want %s %s %s", tc.named, have, link, err, tc.want, tc.link, tc.err)
		}
	}
	if _, _, err := Choose(tree(t, "irdma0 irdma 4:_ACTIVE Ethernet"), ""); err == nil ||
		!strings.Contains(err.Error(), "name one with -d") {
		t.Errorf("a host without one: %v", err)
	}
}
