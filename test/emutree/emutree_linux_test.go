package emutree

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/internal/emu/config"
	emu "github.com/pureverbs/pureverbs/internal/emu/sysfs"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

func TestDevices(t *testing.T) {
	c, err := config.Parse([]string{"mlx5_0", "mlx5_1,model=cx5,link=ib,ports=2,state=down,numa=0"})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := emu.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	}()
	root := sysfs.Root(tree.Root() + "/sys")
	got, err := root.Devices()
	if err != nil {
		t.Fatal(err)
	}
	ib := func(n int, lid uint16) sysfs.Port {
		return sysfs.Port{Number: n, State: 1, StateName: "DOWN", PhysState: 3, PhysStateName: "Disabled",
			LinkLayer: "InfiniBand", Rate: "100 Gb/sec (4X EDR)",
			RateBits: 100e9, LID: lid, SMLID: 1, GIDTableLen: 8}
	}
	want := []sysfs.Device{
		{Name: "mlx5_0", NodeType: 1, NodeTypeName: "CA", NodeGUID: "e41d:2d03:00e0:0000",
			SystemImageGUID: "e41d:2d03:00e0:0000", NodeDescription: "emulated",
			FirmwareVersion: "28.39.1002", HCAType: "MT4129", BoardID: "MT_0000000838", Driver: "mlx5_core",
			PCIAddress: "00e0:01:00.0", NUMANode: -1, Uverbs: "uverbs0",
			Ports: []sysfs.Port{{Number: 1, State: 4, StateName: "ACTIVE", PhysState: 5, PhysStateName: "LinkUp",
				LinkLayer: "Ethernet", Rate: "400 Gb/sec (4X NDR)",
				RateBits: 400e9, GIDTableLen: 256}}},
		{Name: "mlx5_1", NodeType: 1, NodeTypeName: "CA", NodeGUID: "e41d:2d03:00e0:0010",
			SystemImageGUID: "e41d:2d03:00e0:0010", NodeDescription: "emulated",
			FirmwareVersion: "16.35.3006", HCAType: "MT4119", BoardID: "MT_0000000080", Driver: "mlx5_core",
			PCIAddress: "00e0:02:00.0", NUMANode: 0, Uverbs: "uverbs1",
			Ports: []sysfs.Port{ib(1, 3), ib(2, 4)}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for i := range c.Devices {
		for j, p := range c.Devices[i].Ports {
			gids, err := root.GIDs(c.Devices[i].Name, j+1)
			if err != nil || len(gids) != len(p.GIDs) {
				t.Fatalf("%s port %d: %d GIDs, %v; want %d", c.Devices[i].Name, j+1, len(gids), err, len(p.GIDs))
			}
			for k, g := range gids {
				if w := p.GIDs[k]; g.Index != k || g.GID != sysfs.GID(w.GID) || g.Type != sysfs.GIDType(w.Type) ||
					g.Netdev != w.Netdev || g.Err != nil {
					t.Errorf("%s port %d: %+v, want %+v", c.Devices[i].Name, j+1, g, w)
				}
			}
		}
	}
	vlan, ok := root.Netdev("emu0.100")
	if !ok || !vlan.VLAN || !vlan.Up() || vlan.MTU != 1500 || vlan.Address != "e4:1d:2d:e0:00:00" || vlan.Index < 1 {
		t.Errorf("emu0.100: %+v, %v", vlan, ok)
	}
}
