package emutree

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/emu/emutest"
	"github.com/pureverbs/pureverbs/internal/sysfs"
)

func TestMain(m *testing.M) {
	emutest.Run(m, emutest.Devices("mlx5_0", "mlx5_1,model=cx5,link=ib,ports=2,state=down,numa=0"))
}

func TestDevices(t *testing.T) {
	emulated, err := emutest.Need(t).Devices()
	if err != nil {
		t.Fatal(err)
	}
	root := sysfs.Root("/sys")
	got, err := root.Devices()
	if err != nil {
		t.Fatal(err)
	}
	got = slices.DeleteFunc(got, func(d sysfs.Device) bool { // those of the machine
		return !slices.ContainsFunc(emulated, func(e emutest.Device) bool { return e.Name == d.Name })
	})
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
	for _, d := range emulated {
		for _, p := range d.Ports {
			gids, err := root.GIDs(d.Name, p.Number)
			if err != nil || len(gids) != len(p.GIDs) {
				t.Fatalf("%s port %d: %d GIDs, %v; want %d", d.Name, p.Number, len(gids), err, len(p.GIDs))
			}
			for k, g := range gids {
				w := p.GIDs[k]
				if g.Index != w.Index || g.GID != sysfs.GID(w.GID.As16()) || g.Type.String() != w.Type ||
					g.Netdev != w.Netdev || g.Err != nil {
					t.Errorf("%s port %d: %+v, want %+v", d.Name, p.Number, g, w)
				}
			}
		}
	}
	vlan, ok := root.Netdev("emu0.100")
	if !ok || !vlan.VLAN || !vlan.Up() || vlan.MTU != 1500 || vlan.Address != "e4:1d:2d:e0:00:00" || vlan.Index < 1 {
		t.Errorf("emu0.100: %+v, %v", vlan, ok)
	}
}
