package sysfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoDevice: the reason why there is no device is that of this network namespace, then that of the driver.
func TestNoDevice(t *testing.T) {
	root := t.TempDir()
	say := func(want string) {
		t.Helper()
		if got := Root(root).NoDevice(); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	say("class/infiniband does not exist; load a driver")
	if err := os.MkdirAll(filepath.Join(root, "class/infiniband"), 0o755); err != nil {
		t.Fatal(err)
	}
	say("class/infiniband is empty")
	write("module/ib_core/parameters/netns_mode", "Y\n")
	say("class/infiniband is empty")
	write("module/ib_core/parameters/netns_mode", "N\n")
	say("exclusive mode")
}
