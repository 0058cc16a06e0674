package hostfacts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

// TestDistance: the adapter below the GPU's switch is nearest, then one of the same node, one whose node is not known,
// and one of the other node.
func TestDistance(t *testing.T) {
	s, h := server(t)
	gpus, missing := h.GPUs()
	if missing != nil || len(gpus) != 2 || gpus[0] != (GPU{"0000:12:00.0", "10de:2330", 0}) ||
		gpus[1] != (GPU{"0000:22:00.0", "10de:2330", 1}) {
		t.Fatalf("%+v, %v", gpus, missing)
	}
	for address, node := range map[string]string{"0000:90:00.0": "0", "0000:91:00.0": "-1"} {
		s.Write("devices/pci0000:90/"+address+"/class", "0x020700")
		s.Write("devices/pci0000:90/"+address+"/numa_node", node)
		s.Symlink("../../../devices/pci0000:90/"+address, "bus/pci/devices/"+address)
	}
	var all []Distance
	for _, nic := range []string{"0000:12:01.0", "0000:10:01.0", "0000:90:00.0", "0000:91:00.0", "0000:22:01.0",
		"none"} {
		all = append(all, h.Distance(gpus[0].PCIAddress, nic))
	}
	want := []Distance{{PathPCI, 2}, {PathPCI, 2}, {PathNode, 0}, {PathUnknown, 0}, {PathSystem, 0}, {PathUnknown, 0}}
	if !slices.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
	if !slices.IsSortedFunc(all[:5], Distance.Compare) || all[0].Compare(all[4]) >= 0 || all[4].Compare(all[0]) <= 0 {
		t.Errorf("%v are not in order", all)
	}
}

// TestMemlock: the limit, what lifts it, and what it allows.
func TestMemlock(t *testing.T) {
	for _, tc := range []struct {
		limit, users, caps string
		want               Memlock
		allows             bool // 64 MiB
	}{
		{"65536", "0 0 4294967295", "0000000000000000", Memlock{Limit: 65536, Known: true, Text: "65536"}, false},
		{"0", "0 0 4294967295", "0000000000000000", Memlock{Known: true, Text: "0"}, false},
		{"unlimited", "0 0 4294967295", "0", Memlock{Limit: NoLimit, Known: true, Text: "unlimited"}, true},
		{"65536", "0 0 4294967295", "4000", Memlock{Limit: 65536, Known: true, Text: "65536", Capable: true}, true},
		{"65536", "0 100000 65536", "4000", Memlock{Limit: 65536, Known: true, Text: "65536", UserNamespace: true},
			false},
		{"67108864", "0 0 4294967295", "0", Memlock{Limit: 64 << 20, Known: true, Text: "67108864"}, true},
	} {
		s, h := server(t)
		s.File("self/limits", "Max locked memory         "+tc.limit+"    8388608     bytes")
		s.File("self/uid_map", tc.users)
		s.File("self/status", "CapEff:\t"+tc.caps)
		m := h.Memlock()
		if m.Missing != nil {
			t.Error(m.Missing)
		}
		if got := *m; got.Limit != tc.want.Limit || got.Known != tc.want.Known || got.Text != tc.want.Text ||
			got.Capable != tc.want.Capable || got.UserNamespace != tc.want.UserNamespace ||
			m.Allows(64<<20) != tc.allows {
			t.Errorf("%s, %s, %s: %+v, want %+v, allows %v", tc.limit, tc.users, tc.caps, m, tc.want, tc.allows)
		}
	}
}

// TestHosts reads a host with each kind of adapter at each rate that it can have.
func TestHosts(t *testing.T) {
	n := 0
	for _, r := range sysfstest.Rates {
		for _, kind := range strings.Fields(r.Kinds) {
			n++
			w := sysfstest.NewWorld(sysfstest.New(t))
			sysfstest.Plain(r.Layer, r.Rate, kind)(w)
			w.Tree.Addresses(w.Addrs...)
			f, err := Host{Sys: w.Root, Proc: t.TempDir()}.Read()
			if err != nil || len(f.Devices) != 1 {
				t.Fatalf("%s %s: %+v, %v", kind, r.Rate, f, err)
			}
			d := &f.Devices[0]
			p := &d.Ports[0]
			lanes, speed := p.Lanes()
			var gbps float64
			fmt.Sscanf(r.Rate, "%g Gb/sec", &gbps)
			if d.Missing != nil || !p.Active() || p.RateBits != int64(gbps*1e9) || p.Rate != r.Rate ||
				!strings.Contains(r.Rate, fmt.Sprintf("(%dX", lanes)) || speed == "" || p.DataBits() > p.RateBits {
				t.Errorf("%s %s: %+v, %d lanes %s", kind, r.Rate, d, lanes, speed)
			}
			if soft := kind == "soft"; soft != (d.Function == NoFunction) || soft != (d.PCI.Link == nil) ||
				soft != (d.ID == "") {
				t.Errorf("%s: %+v", kind, d.PCI)
			}
			if mellanox := strings.HasPrefix(d.ID, "15b3:") && kind != "cx3"; mellanox != (d.Model != "") ||
				mellanox && int64(gbps) > ModelOf(d.ID).PortGbps {
				t.Errorf("%s %s: %q, up to %d Gb/s", kind, r.Rate, d.Model, ModelOf(d.ID).PortGbps)
			}
			g := d.Links[0].GIDs
			best := "none"
			if g.Best >= 0 {
				best = g.Entries[g.Best].Type.String()
			}
			want := map[string]string{"ib": "IB", "roce": "RoCEv2", "efa": "IB", "iwarp": "none"}[r.Layer]
			if best != want {
				t.Errorf("%s %s %s: the best GID is %s, want %s: %q", r.Layer, kind, r.Rate, best, want, g.Why)
			}
		}
	}
	if n < 80 {
		t.Errorf("%d hosts, want 80 or more", n)
	}
}

func FuzzRedirects(f *testing.F) {
	f.Add(make([]byte, 0x108))
	f.Fuzz(func(t *testing.T, b []byte) { redirects(b) })
}
