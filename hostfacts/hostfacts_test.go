package hostfacts

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

var update = flag.Bool("update", false, "rewrite testdata")

func server(t *testing.T) (*fixture, Host) {
	s := newFixture(t)
	return s, Host{Sys: s.Root, Proc: s.Proc}
}

func encode(t *testing.T, s *fixture, f *Facts) string {
	t.Helper()
	b, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(strings.ReplaceAll(string(b), s.Root, "/sys"), s.Proc, "/proc") + "\n"
}

// TestRead compares all that is known of a server, by its JSON names, and decodes it again.
func TestRead(t *testing.T) {
	s, h := server(t)
	f, err := h.Read()
	if err != nil {
		t.Fatal(err)
	}
	got := encode(t, s, f)
	if *update {
		if err := os.WriteFile("testdata/server.json", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/server.json")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	var again Facts
	d := json.NewDecoder(bytes.NewReader(want))
	d.DisallowUnknownFields()
	if err := d.Decode(&again); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got, encode(t, s, &again)); d != "" {
		t.Errorf("decoded (-want +got):\n%s", d)
	}
}

// TestRead_None: a host without RDMA, and one without any file, have facts and no error.
func TestRead_None(t *testing.T) {
	empty := t.TempDir()
	for _, h := range []Host{{Sys: sysfstest.New(t).Root, Proc: empty}, {Sys: empty, Proc: empty}, At(empty)} {
		f, err := h.Read()
		if err != nil || len(f.Devices) != 0 || f.Memlock.Known || len(f.Memlock.Missing) == 0 {
			t.Errorf("%+v: %+v, %v", h, f, err)
		}
		var none *NotFoundError
		_, err = h.Device("mlx5_0")
		if !errors.As(err, &none) || !errors.Is(err, fs.ErrNotExist) || none.Reason == "" {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

// TestNotFound: each question about a device or a port that is not there names it, and what there is.
func TestNotFound(t *testing.T) {
	_, h := server(t)
	d, err := h.Device("mlx5_0")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(what string, err error, want ...string) {
		t.Helper()
		var none *NotFoundError
		if !errors.As(err, &none) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v is no NotFoundError", what, err)
			return
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %q", what, err, w)
			}
		}
	}
	_, err = h.Device("mlx9_0")
	ask("device", err, `"mlx9_0"`, "devices: mlx5_0, mlx5_1, rxe_0")
	_, err = h.GIDs("mlx9_0", 1)
	ask("GIDs of a device", err, `"mlx9_0"`)
	_, err = h.Namespace().GIDs(&d, 2)
	ask("GIDs of a port", err, `"mlx5_0"`, "no port 2", "ports: 1")
	for _, port := range []int{-1, 0, 2, 256, 1 << 40} {
		_, err = h.Counters("mlx5_0", port)
		ask("counters of a port", err, `"mlx5_0"`, fmt.Sprint(port))
	}
	_, err = h.Counters("mlx9_0", 1)
	ask("counters of a device", err, `"mlx9_0"`)
	for _, name := range []string{"", "..", "../mlx5_0", "a\x00b", strings.Repeat("x", 1000)} {
		if _, err := h.Device(name); err == nil || len(err.Error()) > 1200 {
			t.Errorf("%q: %v", name, err)
		}
		if c, err := h.Counters(name, 1); err == nil || c != nil {
			t.Errorf("counters of %q: %+v, %v", name, c, err)
		}
	}
}

// A hostility is what can be wrong with a file.
type hostility struct {
	name string
	do   func(path string) error
}

var hostilities = []hostility{
	{"huge", func(p string) error { return os.Truncate(p, 1<<40) }},
	{"binary", func(p string) error {
		return os.WriteFile(p, bytes.Repeat([]byte{0xff, 0, 0x1b, '[', 0x80, '\n'}, 200), 0o644)
	}},
	{"empty", func(p string) error { return os.Truncate(p, 0) }},
	{"blank", func(p string) error { return os.WriteFile(p, []byte(" \n"), 0o644) }},
	{"negative", func(p string) error { return os.WriteFile(p, []byte("-9223372036854775809\n"), 0o644) }},
	{"large", func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("9", 4000)+"\n"), 0o644) }},
	{"a directory", func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o755)) }},
	{"a loop", func(p string) error { return errors.Join(os.Remove(p), os.Symlink(filepath.Base(p), p)) }},
	{"missing", os.Remove},
}

// free are the files that may have any text.
var free = []string{"node_desc", "fw_ver", "hca_type", "board_id", "hostname", "osrelease", "scaling_governor", "type",
	"default_roce_mode", "link_layer", "operstate", "address", "uevent", "addresses", "ibdev", "config", "rdma.max",
	"cgroup", "uid_map", "status"}

// TestHostile changes each file of a server in each way. Nothing panics or hangs, and what is not known any more is
// listed with the path and a reason, unless the file is gone or may have any text.
func TestHostile(t *testing.T) {
	s, h := server(t)
	before, err := h.Read()
	if err != nil {
		t.Fatal(err)
	}
	want := encode(t, s, before)
	tried, reported := 0, 0
	for _, path := range files(t, s) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range hostilities {
			if err := bad.do(path); err != nil {
				t.Fatal(path, err)
			}
			tried++
			f, err := h.Read()
			if err != nil {
				t.Errorf("%s is %s: %v", path, bad.name, err)
			}
			got := encode(t, s, f)
			listed := lists(s, got, path)
			if listed {
				reported++
			}
			silent := bad.name == "missing" || slices.Contains(free, filepath.Base(path))
			unread := bad.name == "huge" || bad.name == "a directory" || bad.name == "a loop"
			if got != want && !listed && (!silent || unread && filepath.Base(path) != "addresses") {
				t.Errorf("%s is %s: %s", path, bad.name, cmp.Diff(want, got))
			}
			if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, text, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if after, err := h.Read(); err != nil || encode(t, s, after) != want {
		t.Error("the tree is not what it was")
	}
	t.Logf("%d changes of files, %d reported", tried, reported)
	if tried < 500 || reported < 200 {
		t.Errorf("%d changes of files, %d reported: too few", tried, reported)
	}
}

// TestHostile_Dirs removes each directory of a server, and puts a file in its place. Nothing panics or hangs. What is
// not known any more because of a file is listed, or is the error.
func TestHostile_Dirs(t *testing.T) {
	s, h := server(t)
	before, err := h.Read()
	if err != nil {
		t.Fatal(err)
	}
	want := encode(t, s, before)
	n := 0
	for _, path := range dirs(t, s) {
		aside := path + "~"
		if err := os.Rename(path, aside); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Read(); err != nil {
			t.Errorf("without %s: %v", path, err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := h.Read()
		if got := encode(t, s, f); err == nil && got != want && !strings.Contains(got, `"missing"`) {
			t.Errorf("%s is a file: %s", path, cmp.Diff(want, got))
		}
		if err := errors.Join(os.Remove(path), os.Rename(aside, path)); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if after, err := h.Read(); err != nil || encode(t, s, after) != want || n < 50 {
		t.Errorf("%d directories: the tree is not what it was, or too small", n)
	}
}

// dirs lists the directories of a server.
func dirs(t *testing.T, s *fixture) (list []string) {
	for _, root := range []string{s.Root, s.Proc} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && path != root {
				list = append(list, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

var missingPath = regexp.MustCompile(`"path": "([^"]*)"`)

// lists reports whether facts list a file as missing. They have the path by which they came to it.
func lists(s *fixture, facts, file string) bool {
	for _, m := range missingPath.FindAllStringSubmatch(facts, -1) {
		path := s.Root + strings.TrimPrefix(m[1], "/sys")
		if rest, ok := strings.CutPrefix(m[1], "/proc"); ok {
			path = s.Proc + rest
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil &&
			filepath.Join(dir, filepath.Base(path)) == file {
			return true
		}
	}
	return false
}

// files lists the files of a server.
func files(t *testing.T, s *fixture) (list []string) {
	for _, root := range []string{s.Root, s.Proc} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				list = append(list, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// TestMissing: the reasons are typed.
func TestMissing(t *testing.T) {
	s, h := server(t)
	dir := "class/infiniband/mlx5_0/ports/1/"
	s.Write(dir+"state", "active")
	if err := os.Truncate(filepath.Join(s.Root, dir+"rate"), 1<<20); err != nil {
		t.Fatal(err)
	}
	s.Remove(dir + "lid")
	s.Mkdir(dir + "lid")
	d, err := h.Device("mlx5_0")
	if err != nil || len(d.Missing) != 3 {
		t.Fatalf("%+v, %v", d.Missing, err)
	}
	why := map[string]error{}
	for _, m := range d.Missing {
		if why[filepath.Base(m.Path)] = m.Err; m.Reason != m.Err.Error() || !strings.Contains(m.Reason, m.Path) {
			t.Errorf("%+v", m)
		}
	}
	var value *ValueError
	if !errors.As(why["state"], &value) || value.Text != "active" || !strings.Contains(value.Want, "4: ACTIVE") {
		t.Errorf("%v", why["state"])
	}
	if !errors.Is(why["rate"], ErrTooLarge) || !errors.Is(why["lid"], ErrNotRegular) {
		t.Errorf("%v, %v", why["rate"], why["lid"])
	}
	if p := d.Ports[0]; p.State != PortUnknown || p.RateBits != 0 || p.LID != 0 || p.PhysState != PhysLinkUp {
		t.Errorf("%+v", p)
	}
}

// TestChanging reads a host while devices, ports and GIDs come and go.
func TestChanging(t *testing.T) {
	s, h := server(t)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		dir := filepath.Join(s.Root, "class/infiniband")
		port := filepath.Join(dir, "mlx5_1/ports/1")
		var err error
		for err == nil {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			for _, p := range []string{filepath.Join(dir, "mlx5_0"), port, filepath.Join(port, "gids"),
				filepath.Join(port, "counters"), filepath.Join(port, "state")} {
				err = errors.Join(err, os.Rename(p, p+"~"), os.Rename(p+"~", p))
			}
		}
		done <- err
	}()
	seen := map[int]bool{}
	for range 300 {
		f, err := h.Read()
		if err != nil {
			t.Error(err)
		}
		seen[len(f.Devices)] = true
		for _, d := range f.Devices {
			if d.Name == "" || len(d.Links) != len(d.Ports) {
				t.Errorf("%+v", d)
			}
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Logf("numbers of devices: %v", seen)
}

// TestOtherNamespace: without the addresses of the other namespace, no GID is refused for its address.
func TestOtherNamespace(t *testing.T) {
	s, h := server(t)
	s.Addresses("lo 127.0.0.1/8") // this namespace has another address
	table, err := h.GIDs("mlx5_0", 1)
	if err != nil || table.Best < 0 || table.Entries[table.Best].Type != GIDTypeRoCEv1 {
		t.Errorf("%+v, %v", table, err)
	}
	h.OtherNamespace = true
	table, err = h.GIDs("mlx5_0", 1)
	if err != nil || table.Best < 0 || table.Entries[table.Best].Index != 3 || table.Why[table.Best] != "" {
		t.Errorf("%+v, %v", table, err)
	}
	at := At("/host")
	if at.Sys != "/host/sys" || at.Proc != "/host/proc" || !at.OtherNamespace || At("/").OtherNamespace {
		t.Errorf("%+v", at)
	}
}
