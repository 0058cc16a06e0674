package doctor

import (
	"fmt"
	"strings"
	"testing"
)

// TestSpoilers: what doctor warns of is told beside the figures, of the test's device and port only.
func TestSpoilers(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(*bed)
		mtu   int
		want  string // subject, check, and a part of the text
	}{
		"nothing": {func(*bed) {}, 4096, ""},
		"governor": {func(b *bed) { b.tree.Write("devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave") }, 0,
			"host governor the governor of 1 of 1 CPUs is powersave"},
		"iommu": {func(b *bed) {
			b.tree.Mkdir("class/iommu/dmar0")
			b.tree.Symlink("../../kernel/iommu_groups/7", "devices/pci0000:3a/0000:3a:00.0/"+pci+"/iommu_group")
			b.tree.Write("kernel/iommu_groups/7/type", "DMA")
		}, 0, "mlx5_0 iommu the IOMMU translates"},
		"pcie width": {func(b *bed) { b.tree.Write(bus+"current_link_width", "4") }, 0,
			"mlx5_0 pcie PCIe carries 63 Gb/s"},
		"pcie speed": {func(b *bed) { b.tree.Write(bus+"current_link_speed", "2.5 GT/s PCIe") }, 0,
			"mlx5_0 pcie PCIe carries 32 Gb/s"},
		"mtu": {func(*bed) {}, 1024, "mlx5_0/1 mtu active MTU 1024, although 4096 fits"},
		"small netdev": {func(b *bed) { b.tree.Write("class/net/eth2/mtu", "1500") }, 1024,
			"mlx5_0/1 mtu active MTU 1024, because the MTU of eth2 is 1500"},
		"small messages": {func(b *bed) { b.tree.Write("class/net/eth2/mtu", "1500") }, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.tree.Device("mlx5_9", "pci0000:3a/0000:4a:00.0", "mlx5_core", "0c42:a103:0065:1a2f") // another one
			tt.spoil(b)
			found := Spoilers(b.Host, "mlx5_0", 1, 3, tt.mtu)
			if tt.want == "" {
				if len(found) > 0 {
					t.Errorf("%+v", found)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("%+v, want one", found)
			}
			f := found[0]
			if got := fmt.Sprintf("%s %s %s", f.Subject, f.Check, f.Text); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if w := f.Warning().Error(); f.Remedy == "" || !strings.HasPrefix(w, "warning: "+f.Subject) ||
				!strings.HasSuffix(w, f.Remedy) {
				t.Errorf("the warning is %q", w)
			}
		})
	}
}
