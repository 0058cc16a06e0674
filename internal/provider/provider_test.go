package provider

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/solib"
	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

// host is a made-up installation and a kernel with one device.
type host struct {
	t      *testing.T
	dir    string
	tree   *sysfstest.Tree
	device string
}

// library is a file that passes for a shared library and holds some strings.
func library(strs ...string) []byte {
	b := make([]byte, 64+56)
	copy(b, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(b[16:], 3)
	le.PutUint16(b[18:], map[string]uint16{"amd64": 62, "arm64": 183}[runtime.GOARCH])
	le.PutUint64(b[32:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	b = append(b, 1, 2)
	for _, s := range strs {
		b = append(append(b, s...), 0)
	}
	le.PutUint32(b[64:], 1) // PT_LOAD
	le.PutUint64(b[64+32:], uint64(len(b)))
	return b
}

func newHost(t *testing.T) *host {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("SKIPPED: the made-up libraries are for amd64 and arm64")
	}
	t.Setenv("RDMAV_DRIVERS", "")
	t.Setenv("IBV_DRIVERS", "")
	h := &host{t: t, dir: t.TempDir(), tree: sysfstest.New(t), device: "mlx5_0"}
	h.write("lib/libibverbs.so.1", library(h.dir+"/providers/lib%s-rdmav34.so", h.dir+"/etc/libibverbs.d", "x"))
	h.write("dev/uverbs0", nil)
	h.tree.Device("mlx5_0", "pci0000:00/0000:3b:00.0", "mlx5_core", "")
	h.tree.Write("class/infiniband/mlx5_0/device/vendor", "0x15b3")
	h.tree.Write("class/infiniband/mlx5_0/device/device", "0x1021")
	h.tree.Write("class/infiniband_verbs/uverbs0/ibdev", "mlx5_0")
	h.tree.Write("class/infiniband_verbs/uverbs0/abi_version", "1")
	return h
}

func (h *host) write(name string, b []byte) string {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		h.t.Fatal(err)
	}
	return path
}

func (h *host) set() *Set { return Scan(filepath.Join(h.dir, "lib/libibverbs.so.1")) }

func (h *host) why() string {
	h.t.Helper()
	root := sysfs.Root(h.tree.Root)
	d, err := root.Device(h.device)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.set().Why(root, filepath.Join(h.dir, "dev"), d)
}

func TestWhy(t *testing.T) {
	configured := func(h *host) { h.write("etc/libibverbs.d/mlx5.driver", []byte("# mlx5\n\n driver mlx5\n")) }
	for _, tt := range []struct {
		name string
		make func(h *host)
		want []string
	}{
		{"no provider, not named", func(h *host) {}, []string{"its provider mlx5 has no file libmlx5-rdmav34.so in ",
			"/providers: " + install()}},
		{"no provider, named", configured, []string{"its provider mlx5 has no file libmlx5-rdmav34.so in ",
			"/providers: " + install()}},
		{"other ABI", func(h *host) {
			configured(h)
			h.write("providers/libmlx5-rdmav25.so", library("", "IBVERBS_PRIVATE_25"))
		}, []string{"libmlx5-rdmav25.so is of rdma-core v25 to v32 (provider ABI 25), " +
			"and this libibverbs takes rdma-core v34 to v56 (provider ABI 34)"}},
		{"other ABI than its name", func(h *host) {
			configured(h)
			h.write("providers/libmlx5-rdmav34.so", library("", "IBVERBS_PRIVATE_57"))
		}, []string{"libmlx5-rdmav34.so is of rdma-core v57 to v58 (provider ABI 57)"}},
		{"cut off", func(h *host) {
			configured(h)
			h.write("providers/libmlx5-rdmav34.so", library("IBVERBS_PRIVATE_34")[:130])
		}, []string{"libmlx5-rdmav34.so is cut off: 130 bytes"}},
		{"not named", func(h *host) {
			h.write("providers/libmlx5-rdmav34.so", library("", "IBVERBS_PRIVATE_34"))
		}, []string{"no file in ", "/etc/libibverbs.d names it", `"driver mlx5"`}},
		{"configuration with line ends of Windows", func(h *host) {
			h.write("etc/libibverbs.d/mlx5.driver", []byte("driver mlx5\r\n"))
			h.write("providers/libmlx5-rdmav34.so", library("x"))
		}, []string{"names it with a line end of Windows", "sed -i 's/\\r$//' "}},
		{"beside the library", func(h *host) {
			configured(h)
			h.write("lib/libmlx5-rdmav34.so", library("", "IBVERBS_PRIVATE_34"))
		}, []string{"/lib/libmlx5-rdmav34.so is beside libibverbs, which looks elsewhere", "set RDMAV_DRIVERS=",
			"/lib/libmlx5"}},
		{"good", func(h *host) {
			configured(h)
			h.write("providers/libmlx5-rdmav34.so", library("", "IBVERBS_PRIVATE_34"))
		}, []string{"libmlx5-rdmav34.so could not be loaded", "standard error"}},
		{"no uverbs", func(h *host) { h.tree.Remove("class/infiniband_verbs") }, []string{"ib_uverbs is not loaded"}},
		{"not in uverbs", func(h *host) { h.tree.Remove("class/infiniband_verbs/uverbs0") },
			[]string{"has no entry for it"}},
		{"no device file", func(h *host) { _ = os.Remove(filepath.Join(h.dir, "dev/uverbs0")) },
			[]string{"/dev/uverbs0 is missing: in a container pass it (--device "}},
		{"no device folder", func(h *host) { _ = os.RemoveAll(filepath.Join(h.dir, "dev")) },
			[]string{"is missing, with its folder", "ib_uverbs"}},
		{"another driver", func(h *host) {
			h.tree.Device("odd_0", "pci0000:00/0000:3c:00.0", "odd_core", "")
			h.tree.Write("class/infiniband_verbs/uverbs0/ibdev", "odd_0")
			h.device = "odd_0"
		}, []string{"its driver does not show which one should", "libibverbs finds no provider in"}},
		{"software", func(h *host) {
			h.tree.Device("rxe0", "", "", "")
			h.tree.Write("class/infiniband_verbs/uverbs0/ibdev", "rxe0")
			h.device = "rxe0"
		}, []string{"its provider rxe has no file librxe-rdmav34.so"}},
		{"static library", func(h *host) { h.write("lib/libibverbs.so.1", library("nothing")) },
			[]string{"does not show which ones it loads"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			tt.make(h)
			got := h.why()
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q does not say %q", got, want)
				}
			}
		})
	}
}

// A provider that is loaded, and yet the device is not listed.
func TestWhy_Loaded(t *testing.T) {
	h := newHost(t)
	s := &Set{Library: "/lib/libibverbs.so.1", ABI: "34", Dir: "/p", Files: []File{{Name: "mlx5",
		Path: "/p/libmlx5-rdmav34.so", ABI: "34", Loaded: true}}}
	root := sysfs.Root(h.tree.Root)
	d, err := root.Device("mlx5_0")
	if err != nil {
		t.Fatal(err)
	}
	got := s.Why(root, filepath.Join(h.dir, "dev"), d)
	want := "older than this card (15b3:1021), or than the kernel driver's ABI (abi_version 1)"
	if !strings.Contains(got, want) {
		t.Errorf("%q does not say %q", got, want)
	}
}

func TestScan(t *testing.T) {
	h := newHost(t)
	good := library("", "IBVERBS_PRIVATE_34")
	h.write("etc/libibverbs.d/all.driver", []byte("driver mlx5\ndriver\nnonsense\ndriver gone\n"))
	h.write("providers/libmlx5-rdmav34.so", good)
	h.write("providers/libmlx5.so", good)     // no provider
	h.write("providers/lib-rdmav34.so", good) // nor this
	h.write("providers/libx-rdmavx.so", good) // nor this
	h.write("providers/libcut-rdmav34.so", good[:70])
	opt := h.write("opt/libfoo-rdmav34.so", good)
	t.Setenv("RDMAV_DRIVERS", strings.TrimSuffix(opt, "-rdmav34.so")+":cut;/no/such/libbar")
	s := h.set()
	if s.ABI != "34" || s.Dir != h.dir+"/providers" || s.Config != h.dir+"/etc/libibverbs.d" {
		t.Errorf("%+v", s)
	}
	want := []struct{ name, path, problem string }{
		{"bar", "", "has no file /no/such/libbar-rdmav34.so"},
		{"cut", h.dir + "/providers/libcut-rdmav34.so", "is cut off"},
		{"foo", opt, ""},
		{"gone", "", "has no file libgone-rdmav34.so in " + h.dir + "/providers"},
		{"mlx5", h.dir + "/providers/libmlx5-rdmav34.so", ""},
	}
	if len(s.Files) != len(want) {
		t.Fatalf("%+v", s.Files)
	}
	for i, f := range s.Files {
		if w := want[i]; f.Name != w.name || f.Path != w.path || f.Loaded || !strings.HasPrefix(f.Problem, w.problem) ||
			(f.Problem == "") != (w.problem == "") {
			t.Errorf("%+v, want %+v", f, w)
		}
	}
	// What libibverbs would not survive.
	if err := s.Fatal(); err == nil || !strings.Contains(err.Error(), "libcut-rdmav34.so: is cut off") {
		t.Errorf("fatal: %v", err)
	}
	t.Setenv("RDMAV_DRIVERS", "")
	if err := s.Fatal(); err != nil {
		t.Errorf("fatal, though nothing names it: %v", err)
	}
}

// Files that are not what they should be give less, and no panic.
func TestInspect_Hostile(t *testing.T) {
	dir := t.TempDir()
	for i, b := range []string{
		"", "lib%s-rdmav", "lib%s-rdmav34", "/lib%s-rdmav34.so", strings.Repeat("/a", 4000) + "/lib%s-rdmav34.so\x00",
		"/d/lib%s-rdmav999999.so\x00", "relative/lib%s-rdmav34.so\x00", "\x00IBVERBS_PRIVATE_", "libibverbs.d\x00",
		strings.Repeat("lib%s-rdmav", 1000),
	} {
		path := filepath.Join(dir, "lib.so")
		if err := os.WriteFile(path, []byte(b), 0o644); err != nil {
			t.Fatal(err)
		}
		if abi, d, config := inspect(path); d != "" || config != "" || abi != "" && abi != "34" {
			t.Errorf("%d: %q %q %q", i, abi, d, config)
		}
	}
	if s := Scan(filepath.Join(dir, "none")); s.ABI != "" || s.Files != nil {
		t.Errorf("%+v", s)
	}
}

func TestRelease(t *testing.T) {
	for abi, want := range map[string]string{"34": "rdma-core v34 to v56 (provider ABI 34)", "2": "before rdma-core",
		"77": "provider ABI 77"} {
		if got := Release(abi); !strings.Contains(got, want) {
			t.Errorf("%s is %q, want %q", abi, got, want)
		}
	}
}

// The installed libibverbs tells what it takes, and has it.
func TestLibScan(t *testing.T) {
	cache, _ := os.ReadFile("/etc/ld.so.cache")
	files := solib.Candidates("libibverbs.so.1", "", cache)
	if len(files) == 0 {
		t.Skip("no libibverbs.so.1: make setup installs it")
	}
	s := Scan(files[0])
	if s.ABI == "" || s.Dir == "" || s.Config == "" || len(s.Files) == 0 {
		t.Errorf("%s: %+v", files[0], s)
	}
	for _, f := range s.Files {
		if f.Problem != "" {
			t.Errorf("%+v", f)
		}
	}
	if err := s.Fatal(); err != nil {
		t.Error(err)
	}
}
