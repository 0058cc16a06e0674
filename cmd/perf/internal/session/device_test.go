package session

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

// TestSoftware: no figure of a software device goes without its note, and none of a NIC has one.
func TestSoftware(t *testing.T) {
	tr := sysfstest.Standard(t)
	for _, name := range []string{"siw0", "emu0", "nic0"} {
		tr.Device(name, "", "", "")
	}
	tr.Write("class/infiniband/siw0/parent", "eth0\n")
	tr.Write("class/infiniband/emu0/node_desc", "emulated\n")
	tr.Write("class/infiniband/nic0/node_desc", "host mlx5_0\n")
	for _, tc := range []struct {
		name   string
		vendor uint32
		want   string
	}{
		{"siw0", 0, SoftRoCENote},
		{"rxe0", 0, SoftRoCENote},
		{"other", 0xffffff, SoftRoCENote},
		{"emu0", 0x2c9, EmulatedNote},
		{"nic0", 0x2c9, ""},
		{"absent", 0x2c9, ""},
	} {
		if got := software(sysfs.Root(tr.Root), tc.name, tc.vendor); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
