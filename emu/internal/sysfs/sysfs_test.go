//go:build linux

package sysfs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

func newTree(t testing.TB, spec ...string) *Tree {
	t.Helper()
	c := config.Default()
	if len(spec) > 0 {
		var err error
		if c, err = config.Parse(spec); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

func read(t *testing.T, tr *Tree, path string) string {
	t.Helper()
	target, ok := tr.Lookup(path)
	if !ok || target.Kind != File {
		t.Errorf("%s: %+v, %v; want a file", path, target, ok)
		return ""
	}
	b, err := os.ReadFile(target.RealPath)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func TestFiles(t *testing.T) {
	tr := newTree(t, "mlx5_0", "mlx5_1,link=ib,ports=2,state=down,pkey=0xffff,pkey=0x8001")
	const (
		eth = "/sys/class/infiniband/mlx5_0/"
		ib  = "/sys/class/infiniband/mlx5_1/"
	)
	for path, want := range map[string]string{
		eth + "node_type":                                 "1: CA\n",
		eth + "node_guid":                                 "e41d:2d03:00e0:0000\n",
		eth + "sys_image_guid":                            "e41d:2d03:00e0:0000\n",
		eth + "hca_type":                                  "MT4129\n",
		eth + "hw_rev":                                    "0\n",
		eth + "fw_ver":                                    "28.39.1002\n",
		eth + "board_id":                                  "MT_0000000838\n",
		eth + "device/vendor":                             "0x15b3\n",
		eth + "device/device":                             "0x1021\n",
		eth + "device/class":                              "0x020000\n",
		eth + "device/numa_node":                          "-1\n",
		eth + "ports/1/state":                             "4: ACTIVE\n",
		eth + "ports/1/phys_state":                        "5: LinkUp\n",
		eth + "ports/1/rate":                              "400 Gb/sec (4X NDR)\n",
		eth + "ports/1/link_layer":                        "Ethernet\n",
		eth + "ports/1/lid":                               "0x0\n",
		eth + "ports/1/cap_mask":                          "0x04010000\n",
		eth + "ports/1/gids/0":                            "fe80:0000:0000:0000:e61d:2dff:fee0:0000\n",
		eth + "ports/1/gids/3":                            "0000:0000:0000:0000:0000:ffff:0a58:0001\n",
		eth + "ports/1/gids/255":                          "0000:0000:0000:0000:0000:0000:0000:0000\n",
		eth + "ports/1/gid_attrs/types/0":                 "IB/RoCE v1\n",
		eth + "ports/1/gid_attrs/types/3":                 "RoCE v2\n",
		eth + "ports/1/gid_attrs/ndevs/3":                 "emu0\n",
		eth + "ports/1/gid_attrs/ndevs/7":                 "emu0.100\n",
		eth + "ports/1/pkeys/0":                           "0xffff\n",
		eth + "ports/1/counters/port_xmit_data":           "0\n",
		eth + "ports/1/hw_counters/out_of_sequence":       "0\n",
		eth + "device/infiniband_verbs/uverbs0/dev":       "231:192\n",
		eth + "device/infiniband/mlx5_0/device/device":    "0x1021\n",
		eth + "device/net/emu0/dev_port":                  "0\n",
		ib + "device/class":                               "0x020700\n",
		ib + "ports/1/state":                              "1: DOWN\n",
		ib + "ports/1/phys_state":                         "3: Disabled\n",
		ib + "ports/2/link_layer":                         "InfiniBand\n",
		ib + "ports/2/lid":                                "0x4\n",
		ib + "ports/2/sm_lid":                             "0x1\n",
		ib + "ports/2/gids/0":                             "fe80:0000:0000:0000:e41d:2d03:00e0:0011\n",
		ib + "ports/2/gid_attrs/types/0":                  "IB/RoCE v1\n",
		ib + "ports/2/pkeys/1":                            "0x8001\n",
		ib + "ports/2/pkeys/127":                          "0x0000\n",
		"/sys/class/infiniband_verbs/abi_version":         "6\n",
		"/sys/class/infiniband_verbs/uverbs1/ibdev":       "mlx5_1\n",
		"/sys/class/infiniband_verbs/uverbs1/dev":         "231:193\n",
		"/sys/class/infiniband_verbs/uverbs1/abi_version": "1\n",
		"/sys/class/infiniband_verbs/uverbs0/device/infiniband/mlx5_0/node_type": "1: CA\n",
		"/sys/class/misc/rdma_cm/abi_version":                                    "4\n",
		"/sys/class/net/emu0/address":                                            "e4:1d:2d:e0:00:00\n",
		"/sys/class/net/emu0/mtu":                                                "1500\n",
		"/sys/class/net/emu0/operstate":                                          "up\n",
		"/sys/class/net/emu0/device/device":                                      "0x1021\n",
		"/sys/class/net/emu0.100/address":                                        "e4:1d:2d:e0:00:00\n",
		"/sys/class/net/emu0.100/lower_emu0/dev_port":                            "0\n",
		"/sys/dev/char/231:193/ibdev":                                            "mlx5_1\n",
		"/sys/bus/pci/devices/00e0:02:00.0/vendor":                               "0x15b3\n",
		"/sys/devices/pci00e0:01/00e0:01:00.0/infiniband/mlx5_0/ports/1/sm_sl":   "0\n",
	} {
		if got := read(t, tr, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	// The form that libibverbs matches, and one that the kernel has.
	alias := read(t, tr, eth+"device/modalias")
	if ok, _ := regexp.MatchString(`^pci:v000015B3d00001021sv[0-9A-F]{8}sd[0-9A-F]{8}bc02sc00i00\n$`, alias); !ok {
		t.Errorf("modalias %q", alias)
	}
	mask := regexp.MustCompile(`^[0-9a-f]{8}(,[0-9a-f]{8})*\n$`)
	if s := read(t, tr, eth+"device/local_cpus"); !mask.MatchString(s) || !strings.ContainsAny(s, "123456789abcdef") {
		t.Errorf("local_cpus %q", s)
	}
}

func TestLookup_Kinds(t *testing.T) {
	tr := newTree(t, "mlx5_0", "mlx5_1")
	for _, c := range []struct {
		path string
		kind Kind
		dev  int
		link bool
	}{
		{"/sys/class/infiniband", Dir, 0, false},
		{"/sys/class/infiniband/", Dir, 0, false},
		{"//sys///class/./infiniband/", Dir, 0, false},
		{"/sys/class/net/../infiniband", Dir, 0, false},
		{"/sys/class/infiniband/mlx5_0", Dir, 0, false},
		{"/sys/class/infiniband/mlx5_0/..", Dir, 0, false}, // /sys/devices/.../infiniband
		{"/sys/class/infiniband/mlx5_0/../mlx5_0/node_guid", File, 0, false},
		{"/sys/class/infiniband/mlx5_0/../mlx5_1", Missing, 0, false}, // it is not there, as the link leads away
		{"/sys/class/infiniband/mlx5_0/../../../00e0:01:00.0", Dir, 0, false},
		{"/sys/class/infiniband/mlx5_0/../..", Dir, 0, false},
		{"/sys/class/infiniband/mlx5_0/node_guid/", Missing, 0, false}, // ENOTDIR
		{"/sys/class/infiniband/mlx5_9", Missing, 0, false},
		{"/sys/class/infiniband_mad", Dir, 0, false},
		{"/sys/class/infiniband_cm", Missing, 0, false},
		{"/sys/class/infiniband_verbs/uverbs1", Dir, 0, false},
		{"/dev/infiniband", Dir, 0, false},
		{"/dev/infiniband/uverbs0", Uverbs, 0, false},
		{"/dev/infiniband/uverbs1", Uverbs, 1, false},
		{"/dev//infiniband/../infiniband/uverbs1", Uverbs, 1, false},
		{"/tmp/../dev/infiniband/uverbs1", Uverbs, 1, false},
		{"/dev/infiniband/uverbs2", Missing, 0, false},
		{"/dev/infiniband/uverbs0/x", Missing, 0, false},
		{"/dev/infiniband/rdma_cm", RDMACM, 0, false},
		{"/dev/char/231:193", Uverbs, 1, true},
		{"/dev/char/231:194", Missing, 0, false},
		{"/sys/dev/char/231:192", Dir, 0, false},
		{tr.Root() + "/dev/infiniband/uverbs1", Uverbs, 1, false},
		{tr.Root() + "/sys/class/infiniband/mlx5_1/fw_ver", File, 0, false},
	} {
		got, ok := tr.Lookup(c.path)
		if !ok || got.Kind != c.kind || got.Device != c.dev || got.Link != c.link {
			t.Errorf("%s: %+v, %v; want %v of device %d, link %v", c.path, got, ok, c.kind, c.dev, c.link)
		}
		if !strings.HasPrefix(got.RealPath, tr.Root()+"/") {
			t.Errorf("%s leads to %s, out of the tree", c.path, got.RealPath)
		}
	}
}

// What is the machine's own stays the machine's own.
func TestLookup_Others(t *testing.T) {
	tr := newTree(t)
	for _, path := range []string{"", "/", "/sys", "/sys/", "/dev", "/dev/", "/dev/null", "/dev/infinibandx",
		"/dev/char", "/dev/char/1:3", "/dev/char/2310:1", "/sys/class", "/sys/class/misc", "/sys/devices",
		"/sys/devices/pci0000:00", "/sys/bus/pci/drivers", "/sys/class/infiniband/../misc",
		"/sys/class/infiniband/../../../etc/passwd", "/dev/infiniband/../null", "sys/class/infiniband",
		"/etc/passwd", "/usr/lib/../lib/libc.so", "/usr/sys/class/infiniband", tr.Root(), tr.Root() + "/",
		tr.Root() + "x/sys/class/infiniband",
		tr.Root() + "/scratch/1", "/../etc", "/..", "/./", "////", "/sys/../etc/sys/class/infiniband"} {
		if got, ok := tr.Lookup(path); ok {
			t.Errorf("%s leads to %+v", path, got)
		}
	}
}

// A folder opened through the tree works natively: names, links, openat, "..".
func TestNative(t *testing.T) {
	tr := newTree(t, "mlx5_0", "mlx5_1")
	target, _ := tr.Lookup("/sys/class/infiniband")
	fd, err := unix.Open(target.RealPath, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, name := range []string{"mlx5_0/device/vendor", "mlx5_0/../mlx5_0/node_guid",
		"../infiniband_verbs/uverbs0/ibdev", "mlx5_1/subsystem/mlx5_0/fw_ver"} {
		f, err := unix.Openat(fd, name, unix.O_RDONLY, 0)
		if err != nil {
			t.Errorf("openat %s: %v", name, err)
			continue
		}
		unix.Close(f)
	}
	for path, want := range map[string]string{
		"/sys/class/infiniband/mlx5_0":                "../../devices/pci00e0:01/00e0:01:00.0/infiniband/mlx5_0",
		"/sys/class/infiniband/mlx5_0/device":         "../../../00e0:01:00.0",
		"/sys/class/net/emu1":                         "../../devices/pci00e0:02/00e0:02:00.0/net/emu1",
		"/dev/char/231:192":                           "../infiniband/uverbs0",
		"/sys/devices/pci00e0:01/00e0:01:00.0/driver": "../../../bus/pci/drivers/mlx5_core",
	} {
		target, _ := tr.Lookup(path)
		if got, err := os.Readlink(target.RealPath); err != nil || got != want {
			t.Errorf("%s -> %q, %v; want %q", path, got, err, want)
		}
	}
	for dir, want := range map[string]string{"/sys/class/infiniband": "mlx5_0 mlx5_1",
		"/dev/infiniband":             "rdma_cm umad0 umad1 uverbs0 uverbs1",
		"/sys/class/infiniband_verbs": "abi_version uverbs0 uverbs1", "/sys/class/infiniband/mlx5_0/ports": "1"} {
		target, _ := tr.Lookup(dir)
		entries, err := os.ReadDir(target.RealPath)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); got != want || err != nil {
			t.Errorf("%s holds %s, %v; want %s", dir, got, err, want)
		}
	}
	// No link of the whole tree dangles, or leads out of it but to the machine's own PCI devices.
	own := tr.Root() + "/sys/bus/pci/devices/"
	err = filepath.WalkDir(tr.Root(), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeSymlink != 0 {
			if to, err := filepath.EvalSymlinks(path); err != nil ||
				!strings.HasPrefix(to, tr.Root()+"/") && !(strings.HasPrefix(path, own) &&
					strings.HasPrefix(to, "/sys/devices/")) {
				t.Errorf("%s leads to %s, %v", path, to, err)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestStat(t *testing.T) {
	tr := newTree(t, "mlx5_0", "mlx5_1")
	st := tr.Stat(Target{Kind: Uverbs, Device: 1})
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || unix.Major(st.Rdev) != 231 || unix.Minor(st.Rdev) != 193 ||
		st.Nlink != 1 {
		t.Errorf("uverbs1: %+v", st)
	}
	if other := tr.Stat(Target{Kind: Uverbs, Device: 0}); other.Ino == st.Ino {
		t.Error("two device files have one inode")
	}
	cm := tr.Stat(Target{Kind: RDMACM})
	if got, want := read(t, tr, "/sys/class/misc/rdma_cm/dev"), "10:"; !strings.HasPrefix(got, want) ||
		unix.Major(cm.Rdev) != 10 {
		t.Errorf("rdma_cm: dev %q, %+v", got, cm)
	}
}

func TestUpdates(t *testing.T) {
	tr := newTree(t)
	const port = "/sys/class/infiniband/mlx5_0/ports/1/"
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	expect := func(path, want string) {
		t.Helper()
		if got := read(t, tr, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	dir, _ := tr.Lookup("/sys/class/infiniband/mlx5_0")
	before, _ := os.Stat(dir.RealPath)
	ok(tr.SetPortState(0, 1, config.PortDown, config.PhysDisabled))
	expect(port+"state", "1: DOWN\n")
	expect(port+"phys_state", "3: Disabled\n")
	expect("/sys/class/net/emu0/operstate", "down\n")
	expect("/sys/class/net/emu0.100/carrier", "0\n")
	a, _ := config.ParseAddr("192.168.1.2")
	ok(tr.SetGID(0, 1, 40, config.GID{GID: a, Type: config.GIDTypeRoCEv2, Netdev: "emu0"}))
	expect(port+"gids/40", "0000:0000:0000:0000:0000:ffff:c0a8:0102\n")
	expect(port+"gid_attrs/types/40", "RoCE v2\n")
	ok(tr.SetGID(0, 1, 40, config.GID{}))
	expect(port+"gids/40", "0000:0000:0000:0000:0000:0000:0000:0000\n")
	if got, _ := tr.Lookup(port + "gid_attrs/types/40"); got.Kind != Missing {
		t.Errorf("an empty entry has a type: %+v", got)
	}
	ok(tr.SetCounter(0, 1, "port_rcv_data", 1<<40))
	expect(port+"counters/port_rcv_data", "1099511627776\n")
	calls := 0
	tr.OnCounters = func(device, p int) {
		calls++
		ok(tr.SetCounter(device, p, "out_of_buffer", uint64(calls)))
	}
	expect(port+"hw_counters/out_of_buffer", "1\n")
	expect("/sys/devices/pci00e0:01/00e0:01:00.0/infiniband/mlx5_0/ports/1/hw_counters/out_of_buffer", "2\n")
	tr.Lookup("/sys/class/infiniband/mlx5_0/ports/2/counters/x")
	tr.Lookup("/sys/class/infiniband/counters")
	if calls != 2 {
		t.Errorf("counters asked for %d times, want 2", calls)
	}
	for name, err := range map[string]error{"gid": tr.SetGID(0, 1, 256, config.GID{}),
		"counter": tr.SetCounter(0, 1, "../../x", 1), "port": tr.SetPortState(0, 2, 1, 3),
		"device": tr.SetPortState(1, 1, 1, 3)} {
		if err == nil {
			t.Errorf("%s: no error for one that is not there", name)
		}
	}
	// libibverbs takes a device whose folder has another time for a new one.
	if after, _ := os.Stat(dir.RealPath); !after.ModTime().Equal(before.ModTime()) {
		t.Error("the device's folder changed its time")
	}
	ok(tr.Remove(0))
	ok(tr.Remove(0))
	ok(tr.SetPortState(0, 1, config.PortActive, config.PhysLinkUp))
	for _, path := range []string{"/sys/class/infiniband/mlx5_0", "/sys/class/infiniband_verbs/uverbs0",
		"/dev/infiniband/uverbs0", "/dev/char/231:192", "/sys/class/infiniband_mad/umad0", "/dev/infiniband/umad0",
		"/dev/char/231:0"} {
		if got, ok := tr.Lookup(path); !ok || got.Kind != Missing {
			t.Errorf("%s is still there: %+v, %v", path, got, ok)
		} else if _, err := os.Stat(got.RealPath); err == nil {
			t.Errorf("%s is still there: %s", path, got.RealPath)
		}
	}
}

// Programs that name no device take the first that readdir gives.
func TestOrder(t *testing.T) {
	t.Setenv("TMPDIR", "")
	tr := newTree(t, "mlx5_0", "mlx5_1", "mlx5_2")
	for dir, want := range map[string]string{"/sys/class/infiniband": "mlx5_0 mlx5_1 mlx5_2",
		"/sys/class/infiniband_verbs": "uverbs0 uverbs1 uverbs2 abi_version"} {
		f, err := os.Open(tr.Root() + dir)
		if err != nil {
			t.Fatal(err)
		}
		names, err := f.Readdirnames(-1)
		f.Close()
		if got := strings.Join(names, " "); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", dir, got, err, want)
		}
	}
}

// A reader never sees half a file while it changes.
func TestUpdates_Hammer(t *testing.T) {
	tr := newTree(t)
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range 200 {
				state, phys := config.PortDown, config.PhysDisabled
				if (i+w)%2 == 0 {
					state, phys = config.PortActive, config.PhysLinkUp
				}
				if err := tr.SetPortState(0, 1, state, phys); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 2000 {
			if s := read(t, tr, "/sys/class/infiniband/mlx5_0/ports/1/state"); s != "1: DOWN\n" && s != "4: ACTIVE\n" {
				t.Errorf("state %q", s)
			}
		}
	})
	wg.Wait()
}

func TestClose(t *testing.T) {
	tr, err := New(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(tr.Root()); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v; want 0700", st, err)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(tr.Root()); err == nil {
		t.Error("the folder is still there")
	}
	t.Setenv("TMPDIR", "/nonexistent")
	if _, err := New(config.Default()); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("no folder can be made, but %v", err)
	}
}

// An emulated device hides nothing that the machine has.
func TestNew_RealPCI(t *testing.T) {
	machine = t.TempDir()
	defer func() { machine = "" }()
	const bus = "/sys/devices/pci00e0:01"
	mkdir := func(path string) {
		t.Helper()
		if err := os.MkdirAll(machine+path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mkdir(bus)
	mkdir("/sys/dev/char/10:58")
	tr := newTree(t)
	for path, want := range map[string]bool{bus: false, bus + "/pci_bus": false, bus + "/00e0:01:00.0": true,
		bus + "/00e0:01:00.0/vendor": true} {
		if _, ok := tr.Lookup(path); ok != want {
			t.Errorf("%s is the tree's: %v, want %v", path, ok, want)
		}
	}
	if got := read(t, tr, "/sys/class/misc/rdma_cm/dev"); got != "10:57\n" {
		t.Errorf("rdma_cm is %q, want a number that is free", got)
	}
	mkdir("/sys/bus/pci/devices/00e0:01:00.0")
	if tr, err := New(config.Default()); err == nil {
		tr.Close()
		t.Error("a PCI device of the machine is hidden")
	} else if !strings.Contains(err.Error(), "00e0:01:00.0") || !strings.Contains(err.Error(), "pci=") {
		t.Errorf("error %q does not tell the way out", err)
	}
}

// TestHost shows the machine's interfaces under their device, and no others.
func TestHost(t *testing.T) {
	c, err := config.Parse([]string{"mlx5_0,netdev=lo", "mlx5_1,netdev=nowhere0"})
	if err != nil {
		t.Fatal(err)
	}
	c.UseHost()
	tr, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for _, path := range []string{"/sys/class/net", "/sys/class/net/lo", "/sys/class/net/lo/mtu",
		"/sys/class/net/nowhere0", "/sys/devices/virtual/net/lo"} {
		if got, ok := tr.Lookup(path); ok {
			t.Errorf("%s, which is the machine's, leads to %+v", path, got)
		}
	}
	want, err := os.ReadFile("/sys/class/net/lo/mtu")
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, tr, "/sys/class/infiniband/mlx5_0/device/net/lo/mtu"); got != string(want) {
		t.Errorf("the mtu of lo below its device is %q, want %q", got, want)
	}
	if got := read(t, tr, "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"); got != "lo\n" {
		t.Errorf("ndevs/0: %q", got)
	}
	for _, path := range []string{"/sys/class/infiniband/mlx5_1/device/net",
		"/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0"} {
		if got, _ := tr.Lookup(path); got.Kind != Missing {
			t.Errorf("%s leads to %+v, but the machine has no such interface", path, got)
		}
	}
}

// TestOwn shows all interfaces of the emulated network in the lists, and nothing of the machine's.
func TestOwn(t *testing.T) {
	tr := newTree(t, "mlx5_0,netdev=lo", "mlx5_1")
	target, _ := tr.Lookup("/sys/class/net/")
	got, err := os.ReadDir(target.RealPath)
	var names []string
	for _, e := range got {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	if want := []string{"emu1", "emu1.100", "lo", "lo.100"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("/sys/class/net has %v, %v; want %v", names, err, want)
	}
	for path, want := range map[string]string{"/sys/class/net/lo/ifindex": "1\n",
		"/sys/class/infiniband/mlx5_0/device/net/lo/type": "772\n"} {
		if got := read(t, tr, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got, ok := tr.Lookup("/sys/class/net/eth0/mtu"); !ok || got.Kind != Missing {
		t.Errorf("eth0 leads to %+v, %v", got, ok)
	}
}

var others = []string{"/usr/lib/x86_64-linux-gnu/libmlx5.so.1.24.44.0", "/etc/ld.so.cache", "/proc/self/maps",
	"relative/name", "/dev/null", "/sys/devices/system/cpu/online",
	"/usr/lib/gcc/x86_64-linux-gnu/12/../../../x86_64-linux-gnu/libc.so.6"}

func TestLookup_Allocs(t *testing.T) {
	tr := newTree(t)
	for _, path := range others {
		if n := testing.AllocsPerRun(100, func() { tr.Lookup(path) }); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	tr := newTree(b)
	for _, path := range append(others, "/sys/class/infiniband/mlx5_0/ports/1/state") {
		b.Run(strings.ReplaceAll(path, "/", "_"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tr.Lookup(path)
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		tr, err := New(config.Default())
		if err != nil {
			b.Fatal(err)
		}
		tr.Close()
	}
}

func FuzzLookup(f *testing.F) {
	for _, s := range append(others, "/sys/class/infiniband/mlx5_0/../..", "//dev/./infiniband/uverbs0",
		"/sys/class/infiniband/mlx5_0/device/../..//") {
		f.Add(s)
	}
	tr := newTree(f)
	f.Fuzz(func(t *testing.T, path string) {
		target, ok := tr.Lookup(path)
		if !ok {
			return
		}
		if strings.Contains(target.RealPath, "/../") || strings.HasSuffix(target.RealPath, "/..") ||
			!strings.HasPrefix(target.RealPath, tr.Root()+"/") {
			t.Errorf("%q leads out of the tree: %q", path, target.RealPath)
		}
	})
}

// TestUmad looks at the device files of ports.
func TestUmad(t *testing.T) {
	tr := newTree(t, "mlx5_0", "mlx5_1,link=ib,ports=2")
	for n, want := range []string{"mlx5_0 1", "mlx5_1 1", "mlx5_1 2"} {
		dir := "/sys/class/infiniband_mad/umad" + strconv.Itoa(n)
		got := strings.TrimSpace(read(t, tr, dir+"/ibdev")) + " " + strings.TrimSpace(read(t, tr, dir+"/port"))
		if got != want {
			t.Errorf("umad%d: %s, want %s", n, got, want)
		}
		dev := "/dev/infiniband/umad" + strconv.Itoa(n)
		if got, ok := tr.Lookup(dev); !ok || got.Kind != Umad || got.Umad != n {
			t.Errorf("%s: %+v, %v", dev, got, ok)
		}
		st := tr.Stat(Target{Kind: Umad, Umad: n})
		if st.Mode != unix.S_IFCHR|0o600 || st.Rdev != unix.Mkdev(231, uint32(n)) {
			t.Errorf("%s: mode %o, device %d", dev, st.Mode, st.Rdev)
		}
	}
}
