package sysfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/internal/gid"
	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

// What does not belong in sysfs is refused, in time and with a reason.
func TestGIDs_Hostile(t *testing.T) {
	const dir = "class/infiniband/mlx5_0/ports/1/"
	tr := sysfstest.New(t)
	tr.Device("mlx5_0", "", "", "")
	tr.Port("mlx5_0", 1, "4: ACTIVE", "Ethernet", "", 0)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("fe80:0000:0000:0000:0000:0000:0000:0001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tr.Symlink(secret, dir+"gids/0")
	tr.Symlink("0", dir+"gids/1")
	if err := syscall.Mkfifo(filepath.Join(tr.Root, dir, "gids/2"), 0o600); err != nil {
		t.Fatal(err)
	}
	tr.Write(dir+"gids/3", "")
	if err := os.Truncate(filepath.Join(tr.Root, dir, "gids/3"), 1<<40); err != nil {
		t.Fatal(err)
	}
	tr.Write(dir+"gids/4", strings.Repeat("f", 4000))
	tr.Write(dir+"gids/5", "fe80::1")
	tr.Mkdir(dir + "gids/6")
	// Names that are no index.
	for _, name := range []string{"007", "-1", "+8", "9999999999999", "x", "1e1"} {
		tr.Write(dir+"gids/"+name, "fe80:0000:0000:0000:0000:0000:0000:0001")
	}
	tr.GID("mlx5_0", 1, 7, "FE80:0000:0000:0000:0000:0000:0000:0001", "RoCE v3", strings.Repeat("n", 5000))

	got, err := Root(tr.Root).GIDs("mlx5_0", 1)
	if err != nil || len(got) != 8 {
		t.Fatalf("%d entries, %v; want 8", len(got), err)
	}
	for i, want := range []string{"too many levels", "too many levels", "not a regular", "larger than 4096",
		"eight groups", "eight groups", "not a regular"} {
		if e := got[i]; e.Index != i || e.Err == nil || !strings.Contains(e.Err.Error(), want) || !e.GID.IsZero() ||
			len(e.Err.Error()) > 500 {
			t.Errorf("entry %d: %v, want %q", i, e.Err, want)
		}
	}
	if e := got[7]; e.Err != nil || e.Type != gid.TypeUnknown || e.TypeText != "RoCE v3" || e.Netdev != "" {
		t.Errorf("entry 7: %+v", e)
	}
}

// Without descriptors there is an error, and never less than what there is.
func TestDevices_NoDescriptors(t *testing.T) {
	r := Root(sysfstest.Standard(t).Root)
	devices, err := r.Devices()
	if err != nil {
		t.Fatal(err)
	}
	gids, err := r.GIDs("mlx5_0", 1)
	if err != nil {
		t.Fatal(err)
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	for spare := range 10 {
		f, err := os.Open("/")
		if err != nil {
			t.Fatal(err)
		}
		free := uint64(f.Fd()) // the lowest
		f.Close()
		// Everything runs with no more than spare descriptors.
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: free + uint64(spare),
			Max: old.Max}); err != nil {
			t.Fatal(err)
		}
		devs, err1 := r.Devices()
		table, err2 := r.GIDs("mlx5_0", 1)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(err1, syscall.EMFILE) && (err1 != nil || !cmp.Equal(devs, devices)) {
			t.Errorf("%d descriptors: %v\n%s", spare, err1, cmp.Diff(devices, devs))
		}
		sameGID := func(a, b GIDEntry) bool {
			return errors.Is(b.Err, syscall.EMFILE) && a.Index == b.Index || a.GID == b.GID && a.Type == b.Type &&
				a.Netdev == b.Netdev
		}
		if !errors.Is(err2, syscall.EMFILE) && (err2 != nil || !slices.EqualFunc(gids, table, sameGID)) {
			t.Errorf("%d descriptors: %v\n%+v, want\n%+v", spare, err2, table, gids)
		}
		if spare == 9 && (err1 != nil || err2 != nil) {
			t.Errorf("with enough descriptors: %v, %v", err1, err2)
		}
	}
}

// The name of a character device becomes a path.
func TestDevices_HostileUverbs(t *testing.T) {
	tr := sysfstest.Standard(t)
	for _, name := range []string{"uverbs", "uverbs-1", "uverbs0x", "uverbs\n", "uverbs01"} {
		tr.Write("class/infiniband_verbs/"+name+"/ibdev", "mlx5_1")
	}
	tr.Device("mlx5_1", "", "", "")
	if d, err := Root(tr.Root).Device("mlx5_1"); err != nil || d.Uverbs != "" {
		t.Errorf("%+v, %v; want no character device", d, err)
	}
}
