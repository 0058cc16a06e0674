package loader

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/internal/provider"
)

func TestName(t *testing.T) {
	tests := []struct {
		name           Name
		base           string
		of             bool
		level, version string
	}{
		{IBVerbs, "libibverbs.so.1.14.44.0", true, "14", "44.0"},
		{IBVerbs, "libibverbs.so.1.14.2307mlnx47", true, "14", "2307mlnx47"},
		{IBVerbs, "libibverbs.so.1", true, "", ""},
		{IBVerbs, "libibverbs.so", true, "", ""},
		{IBVerbs, "libibverbsfake.so.1", false, "", ""},
		{IBVerbs, "librdmacm.so.1.3.44.0", false, "", ""},
		{RDMACM, "librdmacm.so.1.3.44.0", true, "3", "44.0"},
		{MLX5, "libmlx5.so.1.24.44.0", true, "24", "44.0"},
		{MLX5, "libmlx5-rdmav34.so", true, "", ""},
		{MLX5, "libmlx5-rdmav34.so (deleted)", true, "", ""},
		{MLX5, "libmlx5dv_something.so", false, "", ""},
		{MLX5, "", false, "", ""},
	}
	for _, tt := range tests {
		if got := tt.name.of(tt.base); got != tt.of {
			t.Errorf("%s.of(%q) = %v", tt.name, tt.base, got)
		}
		if level, version := tt.name.version(tt.base); level != tt.level || version != tt.version {
			t.Errorf("%s.version(%q) = %q, %q; want %q, %q", tt.name, tt.base, level, version, tt.level, tt.version)
		}
	}
}

func TestSearch(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "lib")
	file := filepath.Join(dir, "libibverbs.so.1.14.44.0")
	odd := filepath.Join(dir, "verbs.so")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{file, odd} {
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	gone := filepath.Join(dir, "gone")
	tests := []struct {
		what  string
		name  Name
		list  string
		only  bool
		paths []string // the first ones, where the system is searched
		bad   int
	}{
		{"nothing", IBVerbs, "", false, []string{"libibverbs.so.1"}, 0},
		{"empty entries", IBVerbs, "::", false, []string{"libibverbs.so.1"}, 0},
		{"folder", IBVerbs, folder, true, []string{folder + "/libibverbs.so.1"}, 0},
		{"relative folder", RDMACM, "lib", true, []string{folder + "/librdmacm.so.1"}, 0},
		{"missing folder", RDMACM, gone, true, []string{gone + "/librdmacm.so.1"}, 0},
		{"file", IBVerbs, file, true, []string{file}, 0},
		{"relative file", IBVerbs, "libibverbs.so.1.14.44.0", true, []string{file}, 0},
		{"missing file", IBVerbs, gone + "/libibverbs.so.1", true, []string{gone + "/libibverbs.so.1"}, 0},
		{"another's file", RDMACM, file, false, []string{"librdmacm.so.1"}, 0},
		{"file and folder", IBVerbs, file + ":" + folder, true, []string{file, folder + "/libibverbs.so.1"}, 0},
		{"file of nobody", IBVerbs, odd, true, nil, 1},
		{"file of nobody and folder", MLX5, odd + ":" + folder, true, []string{folder + "/libmlx5.so.1"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			p := search(tt.name, tt.list, "who")
			if (p.only == "who") != tt.only || len(p.bad) != tt.bad {
				t.Errorf("only = %q, bad = %v; want %v, %d", p.only, p.bad, tt.only, tt.bad)
			}
			got := p.paths
			if !tt.only {
				if len(got) < 5 {
					t.Errorf("no well-known folders in %v", got)
				}
				got = got[:1]
			}
			if diff := cmp.Diff(tt.paths, got); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMappedIn(t *testing.T) {
	const maps = `00400000-00401000 r--p 00000000 08:01 11 /usr/bin/program
7f0000000000-7f0000001000 r--p 00000000 08:01 21                         /usr/lib/libmlx5.so.1.24.44.0
7f0000001000-7f0000002000 r-xp 00001000 08:01 21                         /usr/lib/libmlx5.so.1.24.44.0
7f0000003000-7f0000004000 r--p 00000000 08:01 22                         /opt/a folder/libmlx5-rdmav34.so
7f0000005000-7f0000006000 rw-p 00000000 00:00 0                          [heap]
7f0000007000-7f0000008000 rw-p 00000000 00:00 0
7f0000009000-7f000000a000 r--p 00000000 08:01 23                         /usr/lib/libmlx5.so.1
7f000000b000-7f000000c000 r--p 00000000 08:02 23                         /usr/lib/libibverbs.so.1.14.44.0
`
	want := []string{"/usr/lib/libmlx5.so.1.24.44.0", "/opt/a folder/libmlx5-rdmav34.so", "/usr/lib/libmlx5.so.1"}
	if diff := cmp.Diff(want, mappedIn(MLX5, maps)); diff != "" {
		t.Errorf("mappedIn (-want +got):\n%s", diff)
	}
	if got := mappedIn(RDMACM, maps); got != nil {
		t.Errorf("mappedIn of a library that is not there = %v", got)
	}
}

func TestPackages(t *testing.T) {
	tests := []struct{ release, first, packages string }{
		{"NAME=\"Debian GNU/Linux\"\nID=debian\n", "Debian, Ubuntu", "libibverbs1 ibverbs-providers librdmacm1"},
		{"ID=ubuntu\nID_LIKE=debian\n", "Debian, Ubuntu", "libibverbs1 ibverbs-providers librdmacm1"},
		{"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "Fedora, RHEL", "libibverbs librdmacm"},
		{"ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "SUSE",
			"libibverbs1 libibverbs librdmacm1 libmlx5-1"},
		{"ID=arch\n", "Arch", "rdma-core"},
		{"ID=alpine\n", "Alpine", "rdma-core"},
		{"", "Debian, Ubuntu", "libibverbs1 ibverbs-providers librdmacm1"},
	}
	for _, tt := range tests {
		p := packages(tt.release)
		if len(p) != 5 || p[0] != (Package{tt.first, tt.packages}) {
			t.Errorf("packages for %q = %v, want %s first", tt.release, p, tt.first)
		}
	}
	for _, p := range packages("") {
		if p.Packages == "" {
			t.Errorf("no package has the libraries on %s", p.Distribution)
		}
	}
}

func TestCommand(t *testing.T) {
	for id, want := range map[string]string{"debian": "apt-get install libibverbs1 ibverbs-providers librdmacm1",
		"rocky\nID_LIKE=\"rhel centos fedora\"": "dnf install libibverbs librdmacm", "alpine": "apk add rdma-core",
		"opensuse-leap\nID_LIKE=suse": "zypper install libibverbs1 libibverbs librdmacm1 libmlx5-1",
		"arch":                        "pacman -S rdma-core", "haiku": ""} {
		if got := provider.Command("ID=" + id + "\n"); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

func TestRemedy(t *testing.T) {
	install := provider.Command(provider.OSRelease())
	for want, err := range map[string]error{
		"":                             errors.New("another"),
		"unset PUREVERBS_LIBRARY_PATH": &LibraryError{Only: "PUREVERBS_LIBRARY_PATH=/x"},
		"a newer one":                  &LibraryError{Hint: "a newer one"},
		install:                        &LibraryError{Tried: []Try{{"/lib/a", noFile}, {"a", "no such file"}}},
		"reinstall /lib/a: " + install: &LibraryError{Tried: []Try{{"/lib/a", "is cut off"}}},
	} {
		if got := remedy(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestSince(t *testing.T) {
	for _, tt := range []struct {
		name         Name
		symbol, want string
	}{
		{IBVerbs, "ibv_reg_dmabuf_mr", "v34"},
		{IBVerbs, "_ibv_query_gid_ex", "v32"},
		{IBVerbs, "ibv_alloc_pd", ""},
		{IBVerbs, "rdma_establish", ""},
		{RDMACM, "rdma_establish", "v23"},
		{MLX5, "mlx5dv_devx_umem_reg_ex", "v35"},
		{MLX5, "mlx5dv", ""},
	} {
		if got := since(tt.name, tt.symbol); got != tt.want {
			t.Errorf("since(%s, %s) = %q, want %q", tt.name, tt.symbol, got, tt.want)
		}
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		err error
		is  error
		has []string
	}{
		{&LibraryError{Name: IBVerbs, Tried: []Try{{"libibverbs.so.1", "cannot open shared object file"},
			{"/a", noFile}, {"/b", noFile}}, Install: packages("")},
			ErrLibrary, []string{"libibverbs.so.1: cannot open shared", "no such file: /a, /b",
				"libibverbs1 ibverbs-providers librdmacm1 (Debian, Ubuntu)", "rdma-core (Arch)"}},
		{&LibraryError{Name: IBVerbs, Tried: []Try{{"/a", noFile}}, Only: "PUREVERBS_LIBRARY_PATH=/",
			Install: packages("")},
			ErrLibrary, []string{"unset PUREVERBS_LIBRARY_PATH: cannot open", "no such file: /a",
				"PUREVERBS_LIBRARY_PATH=/ allows no other place"}},
		{&InstanceError{Name: MLX5, Loaded: []string{"/a", "/b"}}, ErrLibrary, []string{"/a and /b", "two copies"}},
		{&InstanceError{Name: MLX5, Loaded: []string{"/a"}, Wanted: "/b"}, ErrLibrary,
			[]string{"/a loaded as the driver, but /b"}},
		{&SymbolError{Symbol: "ibv_x", Library: IBVerbs, Path: "/a", Version: "33.0", Since: "v34"}, ErrNotSupported,
			[]string{"libibverbs.so.1 has no ibv_x", "rdma-core v34", "/a is version 33.0"}},
	}
	for _, tt := range tests {
		if !errors.Is(tt.err, tt.is) {
			t.Errorf("%v is not %v", tt.err, tt.is)
		}
		for _, s := range tt.has {
			if !strings.Contains(tt.err.Error(), s) {
				t.Errorf("%q does not say %q", tt.err, s)
			}
		}
		if strings.Contains(tt.err.Error(), "\n") {
			t.Errorf("%q has more than one line", tt.err)
		}
	}
}

// TestLibraryErrorBegins: the error begins with the command that installs all libraries on this distribution, and has
// at most three lines of a terminal.
func TestLibraryErrorBegins(t *testing.T) {
	e := &LibraryError{Name: RDMACM, Tried: []Try{{"librdmacm.so.1", "librdmacm.so.1: " + noSoname}},
		Install: packages("ID=debian\n"), command: provider.Command("ID=debian\n")}
	for _, dir := range wellKnown() {
		e.Tried = append(e.Tried, Try{dir + "/librdmacm.so.1", noFile})
	}
	const want = "apt-get install libibverbs1 ibverbs-providers librdmacm1: cannot open librdmacm.so.1: no such file: /"
	if got := e.Error(); !strings.HasPrefix(got, want) || len(got) > 240 || !strings.HasSuffix(got, " other places") {
		t.Errorf("%d characters: %s", len(got), got)
	}
	e.Tried = []Try{{"/lib/librdmacm.so.1", "is cut off"}}
	if got := e.Error(); !strings.HasPrefix(got, "reinstall /lib/librdmacm.so.1: apt-get install ") {
		t.Error(got)
	}
	e.Tried[0].Reason, e.Hint = "version", "install a later release"
	if got := e.Error(); got != "cannot open librdmacm.so.1: /lib/librdmacm.so.1: version; install a later release" {
		t.Error(got)
	}
}

func TestOFED(t *testing.T) {
	root := t.TempDir()
	if got := ofed(root, []string{"/usr/lib/libibverbs.so.1.14.44.0"}); got != nil {
		t.Errorf("signs of OFED on a plain host: %v", got)
	}
	if err := os.MkdirAll(filepath.Join(root, "sys/module/mlx_compat"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := ofed(root, []string{"/usr/lib/libibverbs.so.1.14.2307mlnx47", "/opt/mellanox/doca/lib64/libmlx5.so.1"})
	want := []string{"/usr/lib/libibverbs.so.1.14.2307mlnx47", "/opt/mellanox/doca/lib64/libmlx5.so.1",
		filepath.Join(root, "sys/module/mlx_compat")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("signs of OFED = %v, want %v", got, want)
	}
}
