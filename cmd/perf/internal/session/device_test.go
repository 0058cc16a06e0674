package session

import (
	"strings"
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

// TestMissingCounters: a port without counters, as in a container, is no port on which none rose.
func TestMissingCounters(t *testing.T) {
	some := map[string]uint64{"port_xmit_wait": 1, "out_of_sequence": 2}
	for _, tc := range []struct {
		all   map[string]uint64
		names []string
		want  string
	}{
		{nil, nil, "mlx5_0 shows none, as devices in containers: a test could not tell whether one rises"},
		{map[string]uint64{}, []string{"out_of_sequence"}, "mlx5_0 shows none"},
		{some, nil, ""},
		{some, []string{"out_of_sequence"}, ""},
		{some, []string{"out_of_sequence", "rnr"},
			`"rnr": mlx5_0 has none of that name, but out_of_sequence, port_xmit_wait`},
	} {
		err := missing("mlx5_0", tc.all, tc.names)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v of %v: %v, want %q", tc.names, tc.all, err, tc.want)
		}
	}
}
