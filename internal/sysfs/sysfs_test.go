package sysfs

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

func TestDevices(t *testing.T) {
	tr := sysfstest.Standard(t)
	tr.Device("rxe0", "", "", "5054:00ff:fe12:3456")
	tr.Port("rxe0", 1, "4: ACTIVE", "Ethernet", "2.5 Gb/sec (1X SDR)", 1024)
	tr.Write("class/infiniband/.hidden", "")
	got, err := Root(tr.Root).Devices()
	if err != nil {
		t.Fatal(err)
	}
	eth := func(n int, state int, name, rate string, bits int64, gids int) Port {
		return Port{Number: n, State: state, StateName: name, PhysState: 5, PhysStateName: "LinkUp",
			LinkLayer: LinkEthernet, Rate: rate, RateBits: bits, LID: 0x11, SMLID: 1, GIDTableLen: gids}
	}
	ib := func(p Port) Port { p.LinkLayer = LinkInfiniBand; return p }
	dev := func(name, guid, driver, pci string, numa int, uverbs string, ports ...Port) Device {
		return Device{Name: name, NodeType: 1, NodeTypeName: "CA", NodeGUID: guid, SystemImageGUID: guid,
			FirmwareVersion: "28.43.1014", Driver: driver, PCIAddress: pci, NUMANode: numa,
			Uverbs: uverbs, Ports: ports}
	}
	want := []Device{
		dev("mlx5_0", "0c42:a103:0065:1a2e", "mlx5_core", "0000:3b:00.0", 1, "uverbs0",
			eth(1, 4, "ACTIVE", "100 Gb/sec (4X EDR)", 100e9, 16)),
		dev("mlx5_2", "0c42:a103:0065:1a30", "mlx5_core", "0000:81:00.0", 1, "uverbs1",
			ib(eth(1, 4, "ACTIVE", "400 Gb/sec (4X NDR)", 400e9, 8)),
			ib(eth(2, 2, "INIT", "10 Gb/sec (4X SDR)", 10e9, 8))),
		dev("mlx5_10", "0c42:a103:0065:1a40", "mlx5_core.sf", "0000:82:00.0", 1, "uverbs2",
			eth(2, 1, "DOWN", "40 Gb/sec (4X QDR)", 40e9, 4), eth(10, 1, "DOWN", "40 Gb/sec (4X QDR)", 40e9, 4)),
		dev("rxe0", "5054:00ff:fe12:3456", "", "", -1, "", eth(1, 4, "ACTIVE", "2.5 Gb/sec (1X SDR)", 25e8, 1024)),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	one, err := Root(tr.Root).Device("mlx5_2")
	if d := cmp.Diff(want[1], one); d != "" || err != nil {
		t.Errorf("one device: %v (-want +got):\n%s", err, d)
	}
}

func TestOnNetdev(t *testing.T) {
	tr := sysfstest.Standard(t)
	tr.Device("siw0", "", "", "")
	tr.Write("class/infiniband/siw0/parent", "eth0\n")
	for dev, want := range map[string]bool{"siw0": true, "mlx5_0": false, "absent": false,
		"../infiniband/siw0": false} {
		if got := Root(tr.Root).OnNetdev(dev); got != want {
			t.Errorf("%s: %v, want %v", dev, got, want)
		}
	}
}

func TestDevices_Missing(t *testing.T) {
	tr := sysfstest.Standard(t)
	r := Root(tr.Root)
	for _, name := range []string{"mlx5_1", "", ".", "..", "../net", "a\x00b"} {
		if _, err := r.Device(name); err == nil {
			t.Errorf("device %q: no error", name)
		}
		if _, err := r.GIDs(name, 1); err == nil {
			t.Errorf("GIDs of device %q: no error", name)
		}
	}
	if _, err := r.GIDs("mlx5_0", 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("port 2: %v, want not exist", err)
	}
	// A device that went away leaves a dangling link for a moment.
	tr.Symlink("../../devices/gone", "class/infiniband/mlx5_1")
	devs, err := r.Devices()
	if err != nil || len(devs) != 3 {
		t.Errorf("%d devices, %v; want the 3 that are there", len(devs), err)
	}
	tr.Remove("class/infiniband")
	if _, err := r.Devices(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no class: %v, want not exist", err)
	}
	tr.Write("class/infiniband", "a file")
	if _, err := r.Devices(); err == nil {
		t.Error("class is a file: no error")
	}
}

func TestGIDs(t *testing.T) {
	tr := sysfstest.Standard(t)
	r := Root(tr.Root)
	got, err := r.GIDs("mlx5_0", 1)
	if err != nil {
		t.Fatal(err)
	}
	var idx []int
	for _, e := range got {
		idx = append(idx, e.Index)
		if (e.Err != nil) != (e.Index == 9) {
			t.Errorf("index %d: error %v", e.Index, e.Err)
		}
	}
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 9, 10}; !slices.Equal(idx, want) {
		t.Errorf("indices %v, want %v: empty entries are left out, order is numeric", idx, want)
	}
	want := GIDEntry{Index: 5, GID: GID{10: 0xff, 11: 0xff, 12: 10, 13: 10, 14: 100, 15: 1}, Type: gid.TypeRoCEv2,
		Netdev: "eth2.100",
		Text:   "0000:0000:0000:0000:0000:ffff:0a0a:6401", TypeText: "RoCE v2"}
	if d := cmp.Diff(want, got[5]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got[4].Type != gid.TypeRoCEv1 {
		t.Errorf("IB/RoCE v1 on Ethernet: %v", got[4].Type)
	}
	ib, err := r.GIDs("mlx5_2", 1)
	if err != nil || len(ib) != 2 || ib[0].Type != gid.TypeIB || ib[0].Netdev != "" {
		t.Errorf("InfiniBand: %+v, %v", ib, err)
	}
}

func TestGID_Single(t *testing.T) {
	tr := sysfstest.Standard(t)
	r := Root(tr.Root)
	for _, tc := range []struct {
		dev    string
		port   uint8
		index  int
		gid    string // "" for none
		typ    gid.Type
		netdev string
	}{
		{"mlx5_0", 1, 3, "0000:0000:0000:0000:0000:ffff:0a0a:0a01", gid.TypeRoCEv2, "eth2"},
		{"mlx5_0", 1, 4, "0000:0000:0000:0000:0000:ffff:0a0a:6401", gid.TypeRoCEv1, "eth2.100"},
		{"mlx5_0", 1, 8, "0000:0000:0000:0000:0000:0000:0000:0000", gid.TypeUnknown, ""},
		{"mlx5_0", 1, 9, "", gid.TypeUnknown, ""},
		{"mlx5_0", 1, 16, "", gid.TypeUnknown, ""},
		{"mlx5_0", 1, -1, "", gid.TypeUnknown, ""},
		{"mlx5_0", 2, 0, "", gid.TypeUnknown, ""},
		{"mlx5_2", 1, 0, "fe80:0000:0000:0000:0c42:a103:0065:1a30", gid.TypeIB, ""},
		{"mlx5_2", 1, 7, "0000:0000:0000:0000:0000:0000:0000:0000", gid.TypeIB, ""}, // the type of all there
		{"no/dev", 1, 0, "", gid.TypeUnknown, ""},
	} {
		e := r.GIDEntry(tc.dev, tc.port, tc.index)
		if ok := e.Err == nil; ok != (tc.gid != "") || ok && e.GID.String() != tc.gid {
			t.Errorf("%+v: GID %v, %v", tc, e.GID, e.Err)
		}
		if e.Index != tc.index || e.Type != tc.typ || e.Netdev != tc.netdev {
			t.Errorf("%+v: %+v", tc, e)
		}
	}
}

// Kernels before 4.5 knew RoCE v1 only and had no gid_attrs.
func TestGIDs_OldKernel(t *testing.T) {
	tr := sysfstest.Standard(t)
	for dev, want := range map[string]gid.Type{"mlx5_0": gid.TypeRoCEv1, "mlx5_2": gid.TypeIB} {
		tr.Remove("class/infiniband/" + dev + "/ports/1/gid_attrs")
		got, err := Root(tr.Root).GIDs(dev, 1)
		if err != nil || len(got) == 0 || got[0].Type != want || got[0].Netdev != "" {
			t.Errorf("%s: %+v, %v; want %v", dev, got, err, want)
		}
	}
}

func TestDevices_Garbage(t *testing.T) {
	tr := sysfstest.New(t)
	tr.Device("mlx5_0", "", "", "not a guid, or?!!!!")
	tr.Port("mlx5_0", 1, "ACTIVE", "Token Ring", "fast", 0)
	const dir = "class/infiniband/mlx5_0/"
	tr.Write(dir+"ports/1/lid", "0x10000")
	tr.Write(dir+"ports/1/phys_state", "-5: LinkUp")
	tr.Write(dir+"ports/x/state", "4: ACTIVE")
	tr.Write(dir+"node_type", "")
	dev, err := Root(tr.Root).Device("mlx5_0")
	if err != nil {
		t.Fatal(err)
	}
	want := Device{Name: "mlx5_0", NodeType: -1, FirmwareVersion: "28.43.1014", NUMANode: -1, Ports: []Port{{
		Number: 1, State: -1, StateName: "ACTIVE", PhysState: -1, PhysStateName: "-5: LinkUp", LinkLayer: "Token Ring",
		Rate: "fast", SMLID: 1}}}
	var unread []string
	for _, e := range dev.Unread {
		unread = append(unread, path.Base(e.Path))
	}
	dev.Unread = nil
	names := []string{"node_guid", "sys_image_guid", "node_type", "state", "phys_state", "rate"}
	if d := cmp.Diff(names, unread); d != "" {
		t.Errorf("unread (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want, dev); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestNetdev(t *testing.T) {
	tr := sysfstest.Standard(t)
	tr.Netdev("dummy0", "unknown", "0x83", 3, 1500, "")
	tr.Netdev("off", "unknown", "0x82", 5, 1500, "")
	tr.Symlink("../bond0", "class/net/eth10/master")
	r := Root(tr.Root)
	want := Netdev{Name: "eth2.100", Index: 9, OperState: "up", Flags: 0x1003, MTU: 1500,
		Address: "0c:42:a1:00:00:01", VLAN: true, Kind: "vlan"}
	if n, ok := r.Netdev("eth2.100"); !ok || !cmp.Equal(n, want) {
		t.Errorf("%+v, %t; want %+v", n, ok, want)
	}
	for name, up := range map[string]bool{"eth2": true, "eth10": false, "dummy0": true, "off": false} {
		if n, ok := r.Netdev(name); !ok || n.Up() != up || n.VLAN {
			t.Errorf("%s: %+v, %t", name, n, ok)
		}
	}
	if n, _ := r.Netdev("eth10"); n.Master != "bond0" {
		t.Errorf("master %q, want bond0", n.Master)
	}
	for _, name := range []string{"", "..", "eth9", "../infiniband", strings.Repeat("e", 16)} {
		if n, ok := r.Netdev(name); ok {
			t.Errorf("netdev %q: %+v", name, n)
		}
	}
}

func TestRoot(t *testing.T) {
	for in, want := range map[Root]string{"": "/sys", "/": "/", "/a/b//": "/a/b"} {
		if got := in.String(); got != want {
			t.Errorf("%q: %q, want %q", string(in), got, want)
		}
	}
	t.Setenv("SYSFS_PATH", "/x/")
	if got := DefaultRoot().ClassDir(); got != "/x/class/infiniband" {
		t.Errorf("got %s", got)
	}
}

func TestNaturalCompare(t *testing.T) {
	sorted := []string{"", "0", "00", "1", "2", "10", "a", "a00b", "a0b", "a01", "a1", "a2", "a10", "a10b",
		"aa", "mlx4_0",
		"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10", "mlx5_99999999999999999999999", "mlx5_100000000000000000000000",
		"mlx5_bond_0", "rxe0"}
	got := slices.Clone(sorted)
	slices.Reverse(got)
	slices.SortFunc(got, NaturalCompare)
	if d := cmp.Diff(sorted, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func FuzzNaturalCompare(f *testing.F) {
	f.Add("mlx5_2", "mlx5_10", "mlx5_02")
	f.Add("a0", "a00", "a")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		ab, ba := NaturalCompare(a, b), NaturalCompare(b, a)
		if ab != -ba || (ab == 0) != (a == b) {
			t.Fatalf("%q %q: %d and %d", a, b, ab, ba)
		}
		if ab <= 0 && NaturalCompare(b, c) <= 0 && NaturalCompare(a, c) > 0 {
			t.Fatalf("%q <= %q <= %q, but not the first and the last", a, b, c)
		}
	})
}

func FuzzParseGID(f *testing.F) {
	f.Add("fe80:0000:0000:0000:0e42:a1ff:fe65:1a2e")
	f.Add("0000:0000:0000:0000:0000:FFFF:0a0a:0a01")
	f.Add("fe80::1")
	f.Add(strings.Repeat(":", 39))
	f.Fuzz(func(t *testing.T, s string) {
		g, err := ParseGID(s)
		want, is := []byte(nil), len(s) == 39
		for i := 0; is && i < len(s); i += 5 {
			b, bad := hex.DecodeString(s[i : i+4])
			is = bad == nil && (i == 35 || s[i+4] == ':')
			want = append(want, b...)
		}
		if is != (err == nil) || is && !bytes.Equal(g[:], want) {
			t.Fatalf("%q became %v, %v", s, g, err)
		}
		if err != nil {
			if !g.IsZero() || len(err.Error()) > 500 {
				t.Fatalf("%q: %v with %q", s, g, err)
			}
			return
		}
		if g.String() != strings.ToLower(s) {
			t.Fatalf("%q became %q", s, g)
		}
		if back, err := ParseGID(g.String()); err != nil || back != g {
			t.Fatalf("%v came back as %v, %v", g, back, err)
		}
	})
}

// FuzzAttributes feeds one text to all attributes of a device.
func FuzzAttributes(f *testing.F) {
	for _, s := range []string{"4: ACTIVE", "-1: x", "100 Gb/sec (4X EDR)", "1e300 Gb/sec", "NaN Gb/sec", "0x1ffff",
		"0c42:a103:0065:1a2e", "0000:3b:00.0", ":"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, name := cut(s); n < -1 || n >= 0 && !strings.Contains(s, ":") || strings.TrimSpace(name) != name {
			t.Fatalf("cut %q: %d %q", s, n, name)
		}
		if r := parseRate(s); r < 0 || r > 1e15 {
			t.Fatalf("rate %q: %d", s, r)
		}
		if g := guid(s); g != "" && g != s {
			t.Fatalf("guid %q: %q", s, g)
		}
		if n, ok := parseIndex(s); ok && (n < 0 || n > 999999999) {
			t.Fatalf("index %q: %d", s, n)
		}
		isPCI(s)
		if typ := gidType(s, s); typ < gid.TypeUnknown || typ > gid.TypeRoCEv2 {
			t.Fatalf("type %q: %v", s, typ)
		}
	})
}

// The tree changes while it is read: no panic, no entry of another index.
func TestGIDs_Vanishing(t *testing.T) {
	tr := sysfstest.Large(t, 1, 64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 64 {
			os.Remove(filepath.Join(tr.Root, "class/infiniband/mlx5_0/ports/1/gids", strconv.Itoa(63-i)))
		}
		os.RemoveAll(filepath.Join(tr.Root, "devices"))
	}()
	r := Root(tr.Root)
	for {
		r.Devices()
		got, err := r.GIDs("mlx5_0", 1)
		for _, e := range got {
			if e.Err == nil && int(e.GID[15]) != e.Index || e.Err != nil && !errors.Is(e.Err, fs.ErrNotExist) {
				t.Fatalf("%+v", e)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		select {
		case <-done:
			if _, err := r.GIDs("mlx5_0", 1); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after all is gone: %v", err)
			}
			return
		default:
		}
	}
}

func BenchmarkGIDs(b *testing.B) {
	tr := sysfstest.Large(b, 1, 256)
	b.ReportAllocs()
	for b.Loop() {
		if g, err := Root(tr.Root).GIDs("mlx5_0", 1); err != nil || len(g) != 256 {
			b.Fatal(len(g), err)
		}
	}
}
