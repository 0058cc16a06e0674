package sysfs

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
	for i, want := range []string{"too many levels", "too many levels", "not a regular", "larger than 4096", "eight groups", "eight groups", "not a regular"} {
		if e := got[i]; e.Index != i || e.Err == nil || !strings.Contains(e.Err.Error(), want) || !e.GID.IsZero() || len(e.Err.Error()) > 500 {
			t.Errorf("entry %d: %v, want %q", i, e.Err, want)
		}
	}
	if e := got[7]; e.Err != nil || e.Type != GIDTypeUnknown || e.TypeText != "RoCE v3" || e.Netdev != "" {
		t.Errorf("entry 7: %+v", e)
	}
}
